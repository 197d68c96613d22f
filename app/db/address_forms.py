"""The forms under which suppressions are written, while an upgrade replaces processes one by one
(docs/operations.md#addresses).

Releases before revision 0072 normalised the case of an address alone, and look for nothing else.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from sqlalchemy import TextClause, select, text
from sqlalchemy.orm import Session

from app.addresses import AccountAddress, NormalizedAddress, address_forms
from app.db.dialect import is_postgresql
from app.db.models import SchemaState
from app.db.models.contacts import non_ascii

COMPARED_SINCE = "0072"
"""The revision of the first code that compares addresses in one form."""

Address = TypeVar("Address", NormalizedAddress, AccountAddress)


def may_run_before(session: Session) -> bool:
    """Whether processes may run that compare the case of addresses alone."""
    in_use = session.execute(select(SchemaState.code_in_use)).scalar()
    return in_use is not None and in_use < COMPARED_SINCE


def written_forms(session: Session, addresses: Collection[Address]) -> list[Address]:
    """The addresses; while older processes may run, also in the other forms that these look for. No statement for
    addresses that have one form alone, as nearly all have."""
    forms = [one._replace(key=form) for one in addresses for form in address_forms(one.key)]
    return forms if len(forms) == len(addresses) or may_run_before(session) else list(addresses)


def is_non_ascii(session: Session, column: str) -> TextClause:
    """The condition that a text has other characters than those of ASCII, written as in the index of such rows."""
    postgresql, sqlite = non_ascii(column)
    return text(postgresql if is_postgresql(session) else sqlite)
