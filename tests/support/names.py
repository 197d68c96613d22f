"""The names that scripts, files and dashboards of others contain: commands, settings, keys of a seed file, metrics.

`python -m tests.support.names > docs/released/names.txt` stores them with a release: later versions are compared with
it (docs/stability.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from app.infrastructure.metric_kinds import DEFINITIONS
from app.infrastructure.startup_report import FILES, FORMER, KNOWN, NOT_OF_SETTINGS
from app.maintenance import figures
from app.plain_data import Record
from app.seed import nouns
from app.tms import tms
from tests.support.commands import commands_of

RELEASED = Path(__file__).parents[2] / "docs" / "released" / "names.txt"
NEED = re.compile(r"(.+) needs .+")


def names() -> list[str]:
    """One line for each name of this version, and one for each that must be given."""
    assert figures.__name__  # it defines the last of the metrics
    return sorted([*_commands(), *_metrics(), *_seed_keys(), *_settings()])


def lost(old: Iterable[str], new: Iterable[str]) -> list[str]:
    """What no longer works of that which was written for the old names: a name that is gone, and a new need of a
    command or an entry that there was."""
    before, now = set(old), set(new)
    gone = [line for line in before - now if not NEED.fullmatch(line)]
    needs = filter(None, map(NEED.fullmatch, now - before))
    return sorted([*gone, *(need[0] for need in needs if need[1] in before)])


def _commands() -> Iterator[str]:
    for words, command in commands_of(tms):
        place = f"command {' '.join(words)}"
        yield place
        yield from _parameters(command, place)


def _parameters(command: click.Command, place: str) -> Iterator[str]:
    position = 0
    for parameter in command.params:
        position += isinstance(parameter, click.Argument)
        called = parameter.opts if isinstance(parameter, click.Option) else [f"argument {position}"]
        yield from (f"{place} {name}" for name in (*called, *parameter.secondary_opts))
        if parameter.required:
            yield f"{place} needs {called[0]}"


def _metrics() -> Iterator[str]:
    for definition in DEFINITIONS.values():
        yield f"metric {definition.name} {definition.type} of {', '.join(sorted(definition.labels)) or 'nothing'}"


def _seed_keys() -> Iterator[str]:
    records = {name.lower(): record for name, record in vars(nouns).items() if isinstance(record, Record)}
    for entry, record in (*records.items(), *((resource.seed_key, resource.record) for resource in nouns.RESOURCES)):
        yield f"seed {entry}"
        yield from (f"seed {entry} {key}" for key in (*record.required, *record.optional))
        yield from (f"seed {entry} needs {key}" for key in record.required)


def _settings() -> Iterator[str]:
    return (f"setting {name}" for name in KNOWN.union(FORMER, FILES).difference(NOT_OF_SETTINGS))


if __name__ == "__main__":
    print(*names(), sep="\n")
