"""Groups: searching them, and the report of one, beside another (docs/console.md#groups)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, request
from flask.views import MethodView

from app.clock import now
from app.console.groups import (
    LATEST,
    PATH,
    Report,
    beside,
    day_of_group,
    owner_of_group,
    path_of_group,
    report_of,
    search,
)
from app.console.lists import sought
from app.console.queries import IN_A_FILE, ON_A_PAGE, Pairs
from app.db.database import ReadSession
from app.db.models import Account
from app.errors import ServiceError
from app.groups.read import COUNTERS, FILTERS
from app.http.console.guard import signed_in
from app.http.console.pages import page, status_of, texts_of
from app.http.console.searches import Search, account_of_request, csv_file, link, search_page
from app.http.context import services
from app.http.paths import path_id
from app.ids import id_in
from blueprints.console.blueprint import blp

FILE_COLUMNS = ("id", "name", "type", "creation_time", "last_sent_time", *COUNTERS)


@blp.route("/groups")
class Groups(MethodView):
    """The groups of an account."""

    @blp.scope("report.view")
    def get(self) -> Response:
        """A page of those that match the query, the newest first. A form leads to its query."""
        return search_page(SEARCH, types=FILTERS["type"].options)


@blp.route("/groups.csv")
class GroupsFile(MethodView):
    """The groups of the page as a file."""

    @blp.scope("report.view")
    def get(self) -> Response:
        """The newest of those that match the query."""
        with services().database.read() as session:
            account = account_of_request(session)
            found = search(session, services().settings.secret_keys, account, SEARCH.query(), IN_A_FILE)[0]
        return csv_file("groups.csv", FILE_COLUMNS, ([item[name] for name in FILE_COLUMNS] for item in found))


@blp.route("/groups/<group_id>")
class OneGroup(MethodView):
    """One group."""

    @blp.scope("report.view")
    def get(self, group_id: str) -> Response:
        """The report of the group, beside that of the group that `beside` names."""
        wanted, refusal = request.args.get("beside", "").strip(), None
        with services().database.read() as session:
            shown, other = _report(session, path_id(group_id)), None
            if wanted:
                try:
                    other = _other(session, shown, wanted)
                except ServiceError as error:
                    refusal = error
        return page(
            "group.html",
            status_of(refusal),
            one=shown,
            other=other,
            rows=list(beside(shown, other)),
            wanted=wanted,
            refused=texts_of(refusal),
            latest=LATEST,
            sees_links="contact.view" in signed_in().scopes,
            messages=link("/console/messages", [("group_id", str(shown.group["id"]))], shown.account_id),
            csv=f"{path_of_group(shown.group['id'])}/day.csv",
        )


@blp.route("/groups/<group_id>/day.csv")
class Day(MethodView):
    """The last hours of a group in numbers."""

    @blp.scope("report.view")
    def get(self, group_id: str) -> Response:
        """A row for each hour, the newest first."""
        with services().database.read() as session:
            owner = owner_of_group(session, signed_in().account_id, path_id(group_id))
            shown = day_of_group(session, owner, path_id(group_id), now())
        rows = zip(shown.hours, *(one.values for one in shown.charts), strict=True)
        return csv_file("day.csv", ["hour", *(one.name for one in shown.charts)], reversed([*rows]))


def _report(session: ReadSession, group_id: int) -> Report:
    owner = owner_of_group(session, signed_in().account_id, group_id)
    return report_of(session, owner, group_id, now())


def _other(session: ReadSession, shown: Report, wanted: str) -> Report:
    """The report of another group of the same account. Raises `invalid_id`, `not_found`."""
    other_id = id_in(wanted)
    if other_id is None:
        raise ServiceError("invalid_id", field="beside", detail=f"{wanted!r} is not the id of a group.")
    return report_of(session, shown.account_id, other_id, now())


def _read(session: ReadSession, account: Account, pairs: Pairs) -> tuple[Mapping[str, Any], Pairs | None]:
    found, older = search(session, services().settings.secret_keys, account, pairs, ON_A_PAGE)
    return {"items": found}, older


SEARCH = Search(PATH, "Groups", "groups.html", sought, _read, nothing={"items": []})
