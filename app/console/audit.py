"""The audit log for operators: searching it with its query language, and one entry (docs/console.md#audit-log)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy.orm import Session

from app.addresses import normalize_address
from app.audit.read import AUDIT_ENTRIES
from app.console.queries import Pairs, of_address, older_query
from app.errors import ServiceError
from app.infrastructure.digests import address_digests
from app.query.cursors import CursorScope
from app.query.grammar import parse_collection
from app.query.reader import read_page
from app.secret_keys import SecretKeys

PATH = "/console/audit"
EVERYBODY = 0
"""In cursors in place of an account: the log is that of the installation."""

Entry = dict[str, Any]


def sought(secret_keys: SecretKeys) -> Callable[[str], tuple[str, str]]:
    """The filter of a text that somebody looks for: of an address its keyed hashes, so that it is in no log of
    requests; else the name of who acted."""

    def found(text: str) -> tuple[str, str]:
        name, value = of_address(text)
        if name == "email":
            digests = address_digests(secret_keys, normalize_address("email", value))
        elif value.isdigit():
            digests = address_digests(secret_keys, normalize_address("mobile", value))
        else:
            return "actor", text
        return "address_digest:in", ",".join(digests)

    return found


def search(session: Session, secret_keys: SecretKeys, pairs: Pairs, limit: int) -> tuple[Sequence[Entry], Pairs | None]:
    """The entries that match, the newest first, and the query of older ones: one statement. Raises the errors of the
    query."""
    cursors = CursorScope(secret_keys, EVERYBODY, PATH)
    query = replace(parse_collection(pairs, AUDIT_ENTRIES.resource, cursors), limit=limit)
    page = read_page(session, AUDIT_ENTRIES, query)
    return page.items, older_query(cursors, pairs, page.ends.next if page.ends.has_next else None)


def find_entry(session: Session, entry_id: int) -> Entry:
    """The entry with that id. Raises `not_found`."""
    query = parse_collection([("id", str(entry_id))], AUDIT_ENTRIES.resource)
    found = read_page(session, AUDIT_ENTRIES, query).items
    if not found:
        raise ServiceError("not_found", detail=f"There is no entry {entry_id}; entries are kept for RETAIN_AUDIT.")
    return found[0]
