"""Which link of a message was clicked (docs/automations.md#links)."""

from __future__ import annotations

from app.automations.facts import is_link
from tests.support.cases import each

IF_GOLD = "%%plan:EXACTLY:gold%%gold%%plan:ELSE%%all%%plan:END%%"


@each(
    ("written", "url", "matches"),
    [
        ("https://a.example/", "https://a.example/", True),
        ("https://a.example/", "https://a.example/more", False),
        ("https://a.example/%%id%%", "https://a.example/17", True),
        ("https://a.example/%%id%%", "https://a.example/", True),
        ("https://a.example/%%id%%", "https://b.example/17", False),
        ("https://a.example/%%id%%/up", "https://a.example/17/up", True),
        ("https://a.example/%%id%%/up", "https://a.example/17/down", False),
        ("https://a.example/%%id**none%%/%%plan%%", "https://a.example/17/gold", True),
        ("https://a.example/%%id%%/to/%%plan%%", "https://a.example/17/at/gold", False),
        ("https://a.example/a%%id%%a", "https://a.example/a", False),
        ("https://a.example/100%%", "https://a.example/100%%", True),
        (f"https://a.example/{IF_GOLD}/x", "https://a.example/all/x", True),
        (f"https://a.example/{IF_GOLD}/x", "https://a.example/all/y", False),
    ],
)
def test_a_wildcard_of_a_link_stands_for_any_text(written: str, url: str, matches: bool) -> None:
    assert is_link(written, url) is matches
