"""The API key of a request, and the list and the contact in its path, in one statement.

For the shortest requests a second statement, and the connection to send it over, would cost a fifth of all their
processor time, and another round trip where the database is on another machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, and_, bindparam, select
from sqlalchemy.orm import Session

from app.accounts.auth import IS_THE_KEY, KEY_COLUMNS, Principal, find_principal, hash_token, principal_of
from app.contacts.read import contact_shape
from app.db.models import Account, ApiKey, Contact, List, table_of
from app.db.prepared import PreparedStatement
from app.db.public_ids import LIST_ID, has_id
from app.ids import BIGGEST
from app.lists.fields import FieldSpec, ListSpec
from app.lists.find import LIST_WITH_FIELDS_COLUMNS, list_of
from app.query.reader import whole_columns

# The API key of a request and the list in its path, in one statement.
#
# Every request about contacts needs both, and a round trip to PostgreSQL costs about 60 microseconds of processor time:
# a fifth of what a bare Flask route takes.

KEY_AND_LIST_COLUMNS = (*KEY_COLUMNS, *LIST_WITH_FIELDS_COLUMNS)
KEY_AND_LIST_TABLES = (
    table_of(ApiKey)
    .join(table_of(Account), Account.id == ApiKey.account_id)
    .outerjoin(table_of(List), has_id(List, ApiKey.account_id, LIST_ID))
)
KEY_AND_LIST = PreparedStatement(select(*KEY_AND_LIST_COLUMNS).select_from(KEY_AND_LIST_TABLES).where(*IS_THE_KEY))
"""One row for a valid key, whether the list exists or not."""


def find_principal_and_list(session: Session, token: str, list_id: int) -> tuple[Principal, ListSpec | None]:
    """The key with this token, and its account's list with that id. Raises like `find_principal`."""
    row = KEY_AND_LIST.row(session, token_hash=hash_token(token), list_id=min(list_id, BIGGEST))
    return principal_and_list_of(row)


def principal_and_list_of(row: Any) -> tuple[Principal, ListSpec | None]:
    """The key and the list of a row with KEY_AND_LIST_COLUMNS. Raises `api_key_invalid` where there is none."""
    principal = principal_of(row)
    return principal, None if row.list_id is None else list_of(row)


# Lists differ only in their fields, which all come from the last column.
CONTACT_COLUMNS = whole_columns(contact_shape((FieldSpec(0, "any", "Any", "Text Field"),)), "contact_")
"""The columns of a contact of any list for `show_contact`."""

KEY_LIST_AND_CONTACT_TABLES = KEY_AND_LIST_TABLES.outerjoin(
    table_of(Contact),
    and_(Contact.list_id == List.id, Contact.id == bindparam("contact_id", type_=BigInteger)),
)
KEY_LIST_AND_CONTACT = PreparedStatement(
    select(*KEY_AND_LIST_COLUMNS, *CONTACT_COLUMNS).select_from(KEY_LIST_AND_CONTACT_TABLES).where(*IS_THE_KEY)
)

OfPath = tuple[Principal, ListSpec | None, Sequence[Any] | None]
"""The key, the list of its account, and the CONTACT_COLUMNS of the contact of that list; None for what does not
exist."""


def find_of_path(session: Session, token: str, list_id: int | None, contact_id: int | None) -> OfPath:
    """The key with this token and what the ids of its path name. Raises like `find_principal`."""
    if list_id is None:
        return find_principal(session, token), None, None
    if contact_id is None:
        return *find_principal_and_list(session, token, list_id), None
    ids = {"list_id": min(list_id, BIGGEST), "contact_id": min(contact_id, BIGGEST)}
    row = KEY_LIST_AND_CONTACT.row(session, token_hash=hash_token(token), **ids)
    principal, contact_list = principal_and_list_of(row)
    contact = row[len(KEY_AND_LIST_COLUMNS) :]
    return principal, contact_list, None if contact[0] is None else contact
