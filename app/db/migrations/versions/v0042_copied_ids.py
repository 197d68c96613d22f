"""A test account's copies of lists and messages get the ids of their originals, negated, so that a test key names them
by those (docs/testing.md#copies). Downwards they have ids like other rows again."""

from __future__ import annotations

from alembic import op

revision = "0042"
down_revision = "0039"
branch_labels = None
depends_on = None

phase = "expand"

TIMES = ("creation_time", "last_modified_time")
COLUMNS = {
    "lists": ("account_id", "name", "system", "allow_duplicates", "stop_words", "has_automations", *TIMES),
    "messages": (
        *("account_id", "name", "type", "subject", "from_name", "from_address", "reply_to", "thumbnail_url"),
        *("body_html", "body_text", *TIMES),
    ),
}
"""Table -> its columns but `id` and `copy_of`."""
REFERRING = {
    "lists": (
        *("list_fields", "contacts", "unsubscribers", "sms_senders", "contact_imports", "automations"),
        *("contact_counts", "automation_runs", "trigger_firings", "sends", "recipients"),
    ),
    "messages": ("sends", "recipients"),
}
"""Table -> those with its ids, in `list_id` or `message_id`."""
OF_TEST_ACCOUNTS = "account_id IN (SELECT id FROM accounts WHERE test_of IS NOT NULL)"


def upgrade() -> None:
    """To this revision."""
    for table, columns in COLUMNS.items():
        names = ", ".join(columns)
        op.execute(
            f"INSERT INTO {table} (id, copy_of, {names}) "  # noqa: S608 - names
            f"SELECT -copy_of, -id, {names} FROM {table} WHERE copy_of > 0 AND id > 0"
        )
        _move(table, "-")


def downgrade() -> None:
    """Back to the one before."""
    for table, columns in COLUMNS.items():
        names = ", ".join(columns)
        op.execute(
            f"INSERT INTO {table} (copy_of, {names}) "  # noqa: S608 - names
            f"SELECT id, {names} FROM {table} WHERE copy_of > 0 AND id < 0"
        )
        _move(table, "")


def _move(table: str, sign: str) -> None:
    """Lets everything refer to the new rows in place of those that they were made from, deletes these, and ends what is
    in between: that `copy_of` of a new row is below 0 and has, with the sign, the id of the row that it replaces."""
    column = f"{table.removesuffix('s')}_id"
    replaced = f"SELECT {sign}copy_of FROM {table} WHERE copy_of < 0"  # noqa: S608 - names
    for referring in REFERRING[table]:
        new = (
            f"SELECT made.id FROM {table} AS made WHERE made.account_id = {referring}.account_id "  # noqa: S608 - names
            f"AND made.copy_of = {sign}{referring}.{column}"
        )
        condition = f"{OF_TEST_ACCOUNTS} AND {column} IN ({replaced})"
        op.execute(f"UPDATE {referring} SET {column} = ({new}) WHERE {condition}")  # noqa: S608 - names
    op.execute(f"DELETE FROM {table} WHERE id IN ({replaced})")  # noqa: S608 - names
    # Upwards the original is in the new id, downwards in the old one.
    op.execute(f"UPDATE {table} SET copy_of = -{'id' if sign else 'copy_of'} WHERE copy_of < 0")  # noqa: S608 - names
