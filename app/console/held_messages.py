"""Messages that are held after a restore: searching them (docs/console.md#held-messages)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy.orm import Session

from app.bulk_actions.kinds import DROP_AS_FAILED, DROP_AS_SENT, RELEASE
from app.console.queries import Pairs, older_query
from app.db.models import Account
from app.query.cursors import CursorScope
from app.query.grammar import parse_collection
from app.secret_keys import SecretKeys
from app.sends.holds.held import HELD, page_held

PATH = "/console/holds"
KINDS = {kind.name: kind for kind in (RELEASE, DROP_AS_SENT, DROP_AS_FAILED)}
"""What can be done to all that a search shows, in the order of its buttons."""


def sought(text: str) -> tuple[str, str]:
    """The filter of a text that somebody looks for."""
    return "uuid", text


def search(
    session: Session, secret_keys: SecretKeys, account: Account, pairs: Pairs, limit: int
) -> tuple[Sequence[Mapping[str, Any]], Pairs | None]:
    """The account's held messages that match, the newest first, and the query of older ones: one statement. Raises the
    errors of the query."""
    cursors = CursorScope(secret_keys, account.id, PATH)
    query = replace(parse_collection(pairs, HELD.resource, cursors), limit=limit)
    page = page_held(session, account.id, query)
    return page.items, older_query(cursors, pairs, page.ends.next if page.ends.has_next else None)
