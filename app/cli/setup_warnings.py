"""Warnings on standard error before a command runs: ignored variables, and a database that may be the wrong one."""

from __future__ import annotations

from sqlalchemy.exc import SQLAlchemyError

from app.db.schema import schema_of
from app.db.url import without_credentials
from app.infrastructure.running import databases
from app.infrastructure.startup_report import ignored_variables
from app.services import Services


def setup_warnings(services: Services) -> list[str]:
    """Warnings about variables without effect, and about a database that may not be the intended one."""
    own = without_credentials(services.settings.database_url)
    others = databases(services.settings) - {own}
    surprises = []
    if _never_migrated(services):
        surprises.append("was never migrated")
    if others:
        surprises.append(f"is not the running service's, {' and '.join(sorted(others))}")
    return [
        *ignored_variables(),
        *([f"using the database {own}, which {' and '.join(surprises)}"] if surprises else []),
    ]


def _never_migrated(services: Services) -> bool:
    """Also False if the database does not answer, which the command itself reports."""
    try:
        with services.database.read() as session:
            return schema_of(session.connection()).state == "missing"
    except SQLAlchemyError:
        return False
