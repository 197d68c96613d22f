"""What the database says of a process that is about to start. Every refusal is one line: `StartRefused`."""

from __future__ import annotations

from app.db.database import Database
from app.db.schema import SchemaError, check_schema
from app.infrastructure.clock_watch import WrongClock, check_clock
from app.infrastructure.installation_key import ForeignSecretKey, check_secret_key
from app.settings import Settings


class StartRefused(Exception):
    """The process must not start; the text is one line for the operator."""


def check_start(database: Database, settings: Settings) -> None:
    """Raises `StartRefused`, and `SQLAlchemyError` when the database cannot be read."""
    try:
        check_schema(database)
        check_clock(database)
        check_secret_key(database, settings.secret_keys)
    except (SchemaError, WrongClock, ForeignSecretKey) as error:
        raise StartRefused(str(error)) from None
