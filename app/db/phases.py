"""Which code works with which revision of the schema (docs/upgrade.md#migrations).

Each migration says in its file whether it expands or contracts the schema. `phase = "expand"`: it only adds, so that
code from before it goes on working. `phase = "contract"`: it takes something away, and `needs` names the newest
revision of the first release that does without it. Code is named like that, too, by the newest revision that it has.
The baseline, which is the schema of the first release, names the code from before it that works with it.

The files are read, not imported: Alembic would cost each start a fifth of a second.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

BASELINE = "0100"
"""The revision of the first release. Its schema was made step by step before, up to `LAST_STEP`."""
LAST_STEP = "0074"
VERSIONS = Path(__file__).parent / "migrations" / "versions"
ASSIGNMENT = re.compile(r'^(phase|needs) = "(\w+)"$', re.MULTILINE)

Part = Literal["all", "expand", "contract"]
"""What of the pending migrations is to run."""


class Migration(NamedTuple):
    """A migration of this release. `needs` is the oldest code that works with its result, empty for any."""

    revision: str
    phase: str
    needs: str


@cache
def migrations() -> tuple[Migration, ...]:
    """The migrations, the oldest first. Raises `ValueError` for one that does not say its phase."""
    return tuple(map(_read, sorted(VERSIONS.glob("v[0-9][0-9][0-9][0-9]_*.py"))))


def _read(path: Path) -> Migration:
    revision = path.name[1:5]
    said = dict(ASSIGNMENT.findall(path.read_text("utf-8")))
    match said:
        case {"phase": "expand", **rest} if not rest or revision == BASELINE:
            return Migration(revision, "expand", said.get("needs", ""))
        case {"phase": "contract", "needs": needs} if needs < revision:
            return Migration(revision, "contract", needs)
    raise ValueError(f'{path.name} must have `phase = "expand"`, or `phase = "contract"` and `needs` of an earlier one')


@cache
def newest_revision() -> str:
    """The newest revision, which names this release's code."""
    return migrations()[-1].revision


@cache
def oldest_revision() -> str:
    """The oldest revision that this release's code works with."""
    return oldest_of(migrations())


def oldest_of(code_migrations: Sequence[Migration]) -> str:
    """The oldest revision that code with these migrations works with: it does without what the contracting ones at
    the end take away."""
    return max(migration.revision for migration in code_migrations if migration.phase == "expand")


def oldest_code(revision: str, code_migrations: Sequence[Migration] | None = None) -> str:
    """The oldest code that works with the schema at that revision."""
    return max(
        (migration.needs for migration in code_migrations or migrations() if migration.revision <= revision), default=""
    )


def pending(revisions: Sequence[str]) -> tuple[Migration, ...]:
    """The migrations with these revisions."""
    return tuple(migration for migration in migrations() if migration.revision in revisions)


class Plan(NamedTuple):
    """Revisions to run now, and those that must wait until no older process runs."""

    run: tuple[str, ...]
    left: tuple[str, ...]


def plan(pending: Sequence[Migration], part: Part, at: str | None, code_in_use: str) -> Plan:
    """Which of the pending migrations to run, from a database that is at `at`.

    `expand` runs what processes with the code in use go on working with. `contract` says that all processes have been
    replaced since the database was expanded to where it is, so that none has older code than that.
    """
    limit = max(at or "", code_in_use) if part == "contract" else code_in_use
    waits = (
        position
        for position, migration in enumerate(pending)
        if part != "all" and at is not None and migration.needs > limit
    )
    end = next(waits, len(pending))
    revisions = tuple(migration.revision for migration in pending)
    return Plan(revisions[:end], revisions[end:])
