"""The commands of a group, for tests that look at all of them."""

from __future__ import annotations

from collections.abc import Iterator

import click

Words = tuple[str, ...]


def commands_of(group: click.Group, *words: str) -> Iterator[tuple[Words, click.Command]]:
    """The commands of a group and of the groups in it, each with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        if isinstance(command, click.Group):
            yield from commands_of(command, *words, name)
        else:
            yield (*words, name), command
