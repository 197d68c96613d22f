"""Migrating the database, with an entry in the audit log (docs/upgrade.md#migrations)."""

from __future__ import annotations

from app.audit.record import Act, record_at_once
from app.db import migrate
from app.db.phases import Part
from app.db.schema import fits
from app.services import Services


def upgrade_database(services: Services, revision: str, part: Part) -> tuple[str, ...]:
    """Migrates to the revision, or runs that part of what is pending; returns the revisions that are left. Raises
    `CommandError`, `MigrationError`."""
    url = services.settings.database_url
    before = migrate.current(url)
    left = migrate.upgrade(url, revision, part)
    _record(services, "database.upgraded", before, migrate.current(url))
    return left


def downgrade_database(services: Services, revision: str) -> None:
    """Migrates back to the revision. It is recorded before it begins: the schema of then may have no log, or not that
    of this release. Raises `CommandError`, `MigrationError`."""
    url = services.settings.database_url
    _record(services, "database.downgraded", migrate.current(url), migrate.resolved(revision))
    migrate.downgrade(url, revision)


def _record(services: Services, action: str, before: str | None, after: str | None) -> None:
    """Unless nothing changes, or this release cannot write the log of the schema."""
    if before != after and fits(services.database):
        act = Act(action, changes=[{"field": "revision", "old": before, "new": after}])
        record_at_once(services.database, act)
