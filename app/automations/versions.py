"""Versions of automations as runs need them. A version never changes, so a process keeps those that it has read."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import URL, select
from sqlalchemy.orm import Session

from app.automations.definition import Branch, Definition, Outcome
from app.automations.parse import parse_stored
from app.db.expressions import in_json
from app.db.models import AutomationStep, AutomationVersion

MAX_KEPT_VERSIONS = 1000
"""Versions that a process keeps; the one that was used longest ago goes first."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version with the ids of the automation's steps."""

    id: int
    automation_id: int
    definition: Definition
    step_ids: Mapping[str, int]
    step_names: Mapping[int, str]
    watched: frozenset[str]
    """Names of the steps whose messages branches ask about."""


_kept: OrderedDict[tuple[URL, int], Version] = OrderedDict()


def load_versions(session: Session, version_ids: Iterable[int]) -> dict[int, Version]:
    """The versions with these ids, without those that are deleted; two selects for what is not known yet."""
    url, ids = session.connection().engine.url, set(version_ids)
    versions = {version_id: _kept[url, version_id] for version_id in ids if (url, version_id) in _kept}
    missing = ids - versions.keys()
    if missing:
        versions |= {version.id: version for version in _read(session, missing)}
    for version_id, version in versions.items():
        _kept[url, version_id] = version
        _kept.move_to_end((url, version_id))
    while len(_kept) > MAX_KEPT_VERSIONS:
        _kept.popitem(last=False)
    return versions


def _read(session: Session, version_ids: Collection[int]) -> list[Version]:
    statement = select(AutomationVersion.id, AutomationVersion.automation_id, AutomationVersion.definition)
    rows = session.connection().execute(statement.where(in_json(AutomationVersion.id, version_ids))).all()
    steps = _steps(session, {row.automation_id for row in rows})
    return [_version(row.id, row.automation_id, parse_stored(row.definition), steps[row.automation_id]) for row in rows]


def _steps(session: Session, automation_ids: Collection[int]) -> Mapping[int, dict[str, int]]:
    """The ids of the steps of each automation, by name."""
    ids_by_name: dict[int, dict[str, int]] = defaultdict(dict)
    statement = select(AutomationStep.automation_id, AutomationStep.name, AutomationStep.id)
    rows = session.connection().execute(statement.where(in_json(AutomationStep.automation_id, automation_ids)))
    for automation_id, name, step_id in rows:
        ids_by_name[automation_id][name] = step_id
    return ids_by_name


def _version(version_id: int, automation_id: int, definition: Definition, step_ids: Mapping[str, int]) -> Version:
    asked = (step.on for step in definition.by_name.values() if isinstance(step, Branch))
    return Version(
        version_id,
        automation_id,
        definition,
        step_ids,
        {step_id: name for name, step_id in step_ids.items()},
        frozenset(on.step for on in asked if isinstance(on, Outcome)),
    )
