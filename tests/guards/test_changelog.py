"""An entry of CHANGELOG.md is one short line with a link to the page that says the rest (CONTRIBUTING.md)."""

from __future__ import annotations

from tests.support.pages import MARKUP, ROOT

MOST_CHARACTERS = 160
"""Maximum length of an entry as it is read, without the targets of links."""
TITLES = {"For integrators", "For operators", "What you must do when you upgrade", "Deprecated", "Removed"}
LINES = (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines()


def test_an_entry_is_one_line_with_a_link() -> None:
    entries = [line for line in LINES if line.startswith(("-", "*", " "))]
    wrong = [line for line in entries if not line.startswith("- ") or not MARKUP.search(line)]
    assert [*wrong, *(line for line in entries if len(MARKUP.sub(r"\1", line)) > MOST_CHARACTERS)] == []


def test_an_entry_stands_under_one_of_few_titles() -> None:
    assert {line.removeprefix("### ") for line in LINES if line.startswith("### ")} <= TITLES
