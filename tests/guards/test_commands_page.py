"""The pages of commands agree with the commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from app.cli import COMMANDS, NOUNS
from app.generated_docs.commands import PAGES, pages
from app.tms import tms

FOLDER = Path(__file__).parents[2] / "docs" / "commands"


def commands(group: click.Group, *words: str) -> Iterator[tuple[str, click.Command]]:
    """The commands of a group and of the groups in it, each with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, *words, name)
        elif command:
            yield " ".join((*words, name)), command


def test_the_pages_are_up_to_date() -> None:
    """`make docs` brings the pages up to date."""
    assert {path.name: path.read_text("utf-8") for path in FOLDER.iterdir()} == pages()


def test_every_command_is_on_one_page() -> None:
    placed = [name for page in PAGES.values() for name in page.names]
    assert sorted(placed) == tms.list_commands(click.Context(tms))
    assert {*COMMANDS, *NOUNS} <= {*placed}
    headings = [line.lstrip("#").strip() for text in pages().values() for line in text.splitlines() if line[:1] == "#"]
    assert {path for path, _ in commands(tms)} <= {*headings}


def test_every_option_says_what_it_does() -> None:
    silent = [
        f"{path} {option.opts[0]}"
        for path, command in commands(tms)
        for option in command.params
        if isinstance(option, click.Option) and not option.help
    ]
    assert silent == []
