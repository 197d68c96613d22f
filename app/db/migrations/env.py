"""Alembic's environment: runs the migrations over the connection that app/db/migrate.py gives it."""

from __future__ import annotations

from typing import Any, Literal

import sqlalchemy as sa
from alembic import context
from alembic.autogenerate.api import AutogenContext

from app.db.migrate import included_on
from app.db.models import Base
from app.db.types import UtcDateTime


def render_item(kind: str, item: Any, _context: AutogenContext) -> str | Literal[False]:
    """How a generated migration names our types: it must not change with the code, so script.py.mako defines them."""
    if kind != "type":
        return False
    if isinstance(item, UtcDateTime):
        return "MOMENT"
    if isinstance(item, sa.BigInteger):
        return "BIG"
    return "JSON" if isinstance(item, sa.JSON) else False


connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    render_item=render_item,
    include_object=included_on(connection.dialect.name),
    # SQLite cannot alter a column: alembic builds the table anew there.
    render_as_batch=connection.dialect.name == "sqlite",
)
context.run_migrations()
