"""The pages of commands agree with the commands."""

from __future__ import annotations

from pathlib import Path

import click

from app.tms import tms
from tests.support.commands import commands_of
from tools.generated_docs.commands import PAGES, pages

FOLDER = Path(__file__).parents[2] / "docs" / "commands"


def test_the_pages_are_up_to_date() -> None:
    """`make docs` brings the pages up to date."""
    assert {path.name: path.read_text("utf-8") for path in FOLDER.iterdir()} == pages()


def test_every_command_is_on_one_page() -> None:
    placed = [name for page in PAGES.values() for name in page.names]
    assert sorted(placed) == tms.list_commands(click.Context(tms))
    headings = [line.lstrip("#").strip() for text in pages().values() for line in text.splitlines() if line[:1] == "#"]
    assert {" ".join(words) for words, _ in commands_of(tms)} <= {*headings}


def test_every_option_says_what_it_does() -> None:
    silent = [
        f"{' '.join(words)} {option.opts[0]}"
        for words, command in commands_of(tms)
        for option in command.params
        if isinstance(option, click.Option) and not option.help
    ]
    assert silent == []
