"""What a command says before it runs, on standard error, where it may not do what its operator has in mind."""

from __future__ import annotations

from sqlalchemy.exc import SQLAlchemyError

from app.db.schema import schema_of
from app.db.url import without_credentials
from app.infrastructure.running import databases
from app.infrastructure.startup_report import ignored_variables
from app.services import Services


def doubts(services: Services) -> list[str]:
    """Variables that nobody reads, and which database is used when that may come as a surprise."""
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
    """False for one that does not answer, too: the command itself tells that."""
    try:
        with services.database.read() as session:
            return schema_of(session.connection()).state == "missing"
    except SQLAlchemyError:
        return False
