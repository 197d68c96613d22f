"""Every row except the account itself belongs to an account and is deleted with it."""

from __future__ import annotations

from sqlalchemy import Table

from app.db.models import Base
from tests.support.cases import each

SHARED = {
    *("accounts", "event_rotation", "transports", "routes", "routing_version", "processes", "schema_state"),
    *("audit_entries", "audit_seals", "digest_key", "installation_key", "remains", "send_pauses"),
    *("console_links", "console_sessions", "console_people", "console_sign_ins", "hook_tokens"),
}
"""`event_rotation` says to which table the events of all accounts are written. Transports, routes and
processes are the operator's, and so is the audit log, which outlives accounts; `schema_state` is the database's own,
and `digest_key`, `installation_key` and `remains` the installation's. An operator's session at the console is of no
account, nor is who signs in by OpenID Connect, nor a domain that is paused for all of them, nor a token of a relay
whose event is about no mail of ours; other pauses and tokens are deleted with theirs."""

TABLES = [table for table in Base.metadata.tables.values() if table.name not in SHARED]


@each("table", TABLES)
def test_every_row_belongs_to_an_account(table: Table) -> None:
    column = table.columns["account_id"]
    (key,) = column.foreign_keys
    assert not column.nullable
    assert key.target_fullname == "accounts.id"
    assert key.ondelete == "CASCADE"
