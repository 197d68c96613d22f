"""The audit log, for operators (docs/console.md#audit-log)."""

from __future__ import annotations

from typing import Any

import orjson
from flask import Response
from flask.views import MethodView

from app.accounts.sessions import OPERATOR
from app.audit.record import ACTIONS
from app.console.audit import PATH, find_entry, search, sought
from app.console.queries import IN_A_FILE, ON_A_PAGE, Pairs
from app.db.database import ReadSession
from app.http.console.pages import page
from app.http.console.searches import Search, csv_file, installation_search_page
from app.http.context import services
from app.http.paths import path_id
from blueprints.console.blueprint import blp

FILE_COLUMNS = (
    *("id", "time", "account_id", "action", "object", "object_id", "object_name", "address_digest"),
    *("actor_kind", "actor", "key_id", "source", "via", "request_id"),
)


@blp.route("/audit")
class Audit(MethodView):
    """The audit log of the installation."""

    @blp.scope(OPERATOR)
    def get(self) -> Response:
        """A page of the entries that match the query, the newest first. A form leads to its query."""
        return installation_search_page(_search(), actions=ACTIONS)


@blp.route("/audit.csv")
class AuditFile(MethodView):
    """The entries of the page as a file."""

    @blp.scope(OPERATOR)
    def get(self) -> Response:
        """The newest of those that match the query."""
        with services().database.read() as session:
            items = search(session, services().settings.secret_keys, _search().query(), IN_A_FILE)[0]
        return csv_file("audit.csv", FILE_COLUMNS, ([item[name] for name in FILE_COLUMNS] for item in items))


@blp.route("/audit/<entry_id>")
class AuditEntryPage(MethodView):
    """One entry."""

    @blp.scope(OPERATOR)
    def get(self, entry_id: str) -> Response:
        """All that it says."""
        with services().database.read() as session:
            entry = find_entry(session, path_id(entry_id))
        facts = [(name, entry[name]) for name in FILE_COLUMNS[2:] if entry[name] is not None]
        changes = [(one["field"], *(_written(one, name) for name in ("old", "new"))) for one in entry["changes"]]
        return page("audit_entry.html", entry=entry, facts=facts, changes=changes)


def _search() -> Search:
    return Search(
        PATH,
        "Audit log",
        "audit.html",
        sought(services().settings.secret_keys),
        _read,
        nothing={"items": []},
        time="time",
    )


def _read(session: ReadSession, _account: Any, pairs: Pairs) -> tuple[dict[str, Any], Pairs | None]:
    items, older = search(session, services().settings.secret_keys, pairs, ON_A_PAGE)
    return {"items": items}, older


def _written(change: dict[str, Any], name: str) -> str:
    return orjson.dumps(change[name]).decode() if name in change else ""
