"""The audit log, for operators (docs/console-contents.md#audit-log)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from flask import Response

from app.accounts.sessions import OPERATOR
from app.audit.read import AUDIT_ENTRIES
from app.audit.record import ACTIONS
from app.console.accounts import names_of_accounts
from app.console.audit import PATH, find_entry, read_entries, text_filter
from app.console.queries import SearchPage, SearchRequest
from app.http.console.pages import page
from app.http.console.searches import Search
from app.http.context import services
from app.http.paths import path_id
from app.ids import id_in
from blueprints.console.blueprint import blp

COLUMNS = (
    *("id", "time", "account_id", "action", "object", "object_id", "object_name", "address_digest"),
    *("actor_kind", "actor", "key_id", "source", "via", "request_id"),
)


def _find(search_request: SearchRequest) -> SearchPage:
    return search_request.read_page(
        PATH, AUDIT_ENTRIES.resource, lambda session, _, query: read_entries(session, query)
    )


def _account_names(search_request: SearchRequest, search_page: SearchPage) -> Mapping[str, Any]:
    """The accounts of the entries and of the filter, by name, as far as they still exist."""
    filtered = [id_ for name, value in search_request.pairs if name == "account_id" and (id_ := id_in(value))]
    names = names_of_accounts(search_request.session, {*filtered, *(item["account_id"] for item in search_page.items)})
    only = [names.get(id_, f"account {id_} (deleted)") for id_ in filtered]
    return {"account_names": names, "only": only}


AUDIT = Search(
    path=PATH,
    title="Audit log",
    template="audit.html",
    text_filter=lambda text: text_filter(services().settings.secret_keys, text),
    find=_find,
    columns=COLUMNS,
    context=lambda: {"actions": ACTIONS},
    page_context=_account_names,
    time="time",
    is_installation_wide=True,
)
blp.searches(AUDIT, OPERATOR)


@blp.shows("/audit/<entry_id>", OPERATOR)
def entry(entry_id: str) -> Response:
    """All that an entry of the log says."""
    with services().database.read() as session:
        log_entry = find_entry(session, path_id(entry_id))
        names = names_of_accounts(session, {log_entry["account_id"]})
    facts = [(name, log_entry[name]) for name in COLUMNS[3:] if log_entry[name] is not None]
    if (account_id := log_entry["account_id"]) is not None:
        facts.insert(0, ("account", names.get(account_id, f"{account_id} (deleted)")))
    changes = [
        (change["field"], *(_written(change, name) for name in ("old", "new"))) for change in log_entry["changes"]
    ]
    return page("audit_entry.html", entry=log_entry, facts=facts, changes=changes)


def _written(change: dict[str, Any], name: str) -> str:
    return orjson.dumps(change[name]).decode() if name in change else ""
