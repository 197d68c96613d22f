"""The texts that a running service shows: strings of the code, templates, help of commands, the description.

Commands in them are written as `tms …`, whichever way this installation spells them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import click
import orjson

from app.cli import COMMANDS, NOUNS, group_of
from app.distribution import COMMAND_LINE
from app.tms import tms
from tests.support.description import describe
from tests.support.sources import ROOT, Source, sources

COMMAND_MODULE = "app.distribution"
"""The module that decides how commands are spelled."""
PAGE_TEXTS = ("_setting", "_secret", "_retention", "about")
"""What declares a setting or an attribute, with its meaning on a page."""
PREFIXES = ("COMMAND_LINE", "COMMANDS", "TMS")
"""Names whose values are what is typed in front of a command."""


def shown_texts() -> Iterator[tuple[str, str]]:
    """The place and the words of each."""
    for source in sources():
        if not source.name.startswith(COMMAND_MODULE):
            yield from ((source.name, text) for text in strings(source))
    for path in sorted((ROOT / "app" / "templates").rglob("*.html")):
        yield str(path.relative_to(ROOT)), path.read_text("utf-8").replace("{{ command_line }}", "tms")
    yield from helps(tms, click.Context(tms, info_name="tms"))
    yield "the description of the API", orjson.dumps(describe()).decode()


def strings(source: Source) -> Iterator[str]:
    """The strings of a module but for those that stand alone, which are documentation."""
    left_out = {node.value for node in ast.walk(source.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PAGE_TEXTS:
            left_out |= {inner for inner in ast.walk(node) if isinstance(inner, ast.expr)}
        if isinstance(node, ast.JoinedStr) and node not in left_out:
            left_out |= {inner for inner in node.values if isinstance(inner, ast.Constant)}
            yield "".join(map(_written, node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in left_out:
            yield node.value


def _written(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    is_prefix = isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name) and part.value.id in PREFIXES
    return "tms" if is_prefix else "…"


def helps(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """The help of a command and of those below it, in one line each."""
    text = " ".join(command.get_help(context).split())
    yield f"{context.command_path} --help", text.replace(COMMAND_LINE, "tms")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from helps(below, click.Context(below, info_name=name, parent=context))


def command_names() -> Iterator[str]:
    """Every command of two words."""
    for noun in NOUNS:
        yield from (f"{noun} {name}" for name in group_of(noun).commands)


_COMMAND = "|".join(re.escape(name) for name in sorted(command_names(), key=len, reverse=True))
_SINGLE = "|".join(map(re.escape, COMMANDS))
BARE_COMMAND = re.compile(
    rf"(?<=[^\n])(?<!tms )(?<![-\w/])(?:{_COMMAND})(?![-\w])|`(?:{_COMMAND}|{_SINGLE})(?![-\w])[^`]*`"
)
"""A command without what is typed in front of it. A string that begins with one is given to what writes the rest."""
