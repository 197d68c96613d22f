"""The audit log for operators: what a search of it looks for, and one entry (docs/console-contents.md#audit-log)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy.orm import Session

from app.addresses import normalize_address
from app.audit.read import AUDIT_ENTRIES, with_names_of_people
from app.console.queries import address_filter
from app.errors import ServiceError
from app.infrastructure.digests import address_digests
from app.query.conditions import Query
from app.query.grammar import parse_collection
from app.query.reader import Page, read_page
from app.secret_keys import SecretKeys

PATH = "/console/audit"


def text_filter(secret_keys: SecretKeys, text: str) -> tuple[str, str]:
    """The filter of a text that somebody looks for: of an address its keyed hashes, so that it is in no log of
    requests; else the name of who acted."""
    name, value = address_filter(text)
    if name == "email":
        digests = address_digests(secret_keys, normalize_address("email", value))
    elif value.isdigit():
        digests = address_digests(secret_keys, normalize_address("mobile", value))
    else:
        return "actor", text
    return "address_digest:in", ",".join(digests)


def find_entry(session: Session, entry_id: int) -> dict[str, Any]:
    """The entry with that id. Raises `not_found`."""
    query = parse_collection([("id", str(entry_id))], AUDIT_ENTRIES.resource)
    entries = with_names_of_people(session, read_page(session, AUDIT_ENTRIES, query).items)
    if not entries:
        raise ServiceError("not_found", detail=f"There is no entry {entry_id}. Entries are kept for RETAIN_AUDIT.")
    return entries[0]


def read_entries(session: Session, query: Query) -> Page:
    """A page of entries."""
    entries = read_page(session, AUDIT_ENTRIES, query)
    return replace(entries, items=with_names_of_people(session, entries.items))
