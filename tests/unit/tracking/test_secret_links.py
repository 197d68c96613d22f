"""Recognition of secret links (docs/tracking.md#secret-links)."""

from __future__ import annotations

import re

from app.tracking.links import SECRET_NAMES, has_secret
from tests.support.cases import each
from tests.support.sources import ROOT


@each(
    "query",
    [
        "token=abc",
        "reset_token=abc",
        "resetToken=abc",
        "X-Amz-Signature=abc",
        "user=7&PASSWORD=x",
        "user=7;pwd=x",
        "code=123456",
        "oobCode=x",
        "t%6Fken=abc",
        "id=3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "x=9f86d081884c7d659a2feaa0c55ad015",
        "x=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N",
        "q=mZ8-x_2aB-9dQ_k1Lp-Rt",
        "9f86d081884c7d659a2feaa0c55ad015",
        "a=1#access_token=abc",
    ],
)
def test_links_that_look_secret(query: str) -> None:
    assert has_secret(f"https://a.example/reset?{query}")
    assert has_secret(f"https://a.example/reset#{query}")


@each(
    "url",
    [
        "https://a.example/",
        "https://a.example/9f86d081884c7d659a2feaa0c55ad015",
        "https://a.example/?",
        "https://a.example/?token=",
        "https://a.example/?token",
        "https://a.example/?utm_source=newsletter&utm_campaign=spring-sale-2026-second-reminder",
        "https://a.example/?q=what+is+a+token&page=2",
        "https://a.example/?keyword=shoes&coder=ann&tokens=3&signal=on",
        "https://a.example/?order=20261121000000000000",
        "https://a.example/?text=Donaudampfschifffahrtsgesellschaft",
        "https://a.example/#section-2",
    ],
)
def test_links_that_do_not_look_secret(url: str) -> None:
    assert not has_secret(url)


def test_the_documentation_lists_the_words() -> None:
    page = (ROOT / "docs" / "tracking.md").read_text()
    _, listed, _ = re.split(r"a name that contains one of these words|\.\s+Words end", page)
    assert set(re.findall(r"`([a-z]+)`", listed)) == SECRET_NAMES
