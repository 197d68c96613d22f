"""Progress is shown on a terminal only."""

from __future__ import annotations

import io

import pytest

from app.cli.progress import progress


class Terminal(io.StringIO):
    """Standard error on a screen."""

    def isatty(self) -> bool:
        return True


def test_a_bar_with_the_rate_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with progress("Importing", 200) as advance:
        advance(50)
        advance(150)
    last = screen.getvalue().split("\r")[-1]
    assert "Importing" in last
    assert "200/200" in last
    assert "/s" in last


def test_a_bar_of_an_unknown_total_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with progress("Exporting", None) as advance:
        advance(1000)
    assert "1000" in screen.getvalue().split("\r")[-1]


def test_nothing_is_shown_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr("sys.stderr", file)
    with progress("Importing", 10) as advance:
        advance(10)
    assert file.getvalue() == ""
