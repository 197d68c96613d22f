"""Groups: searching them, and the report of one, beside another (docs/console-messages.md#groups)."""

from __future__ import annotations

from flask import Response, request

from app.clock import now
from app.console.groups import (
    LATEST_MESSAGES,
    PATH,
    Report,
    beside,
    day_of_group,
    find_group_id,
    owner_of_group,
    path_of_group,
    report_of,
)
from app.console.offers import newest
from app.console.queries import name_filter
from app.db.database import ReadSession
from app.db.models import Group
from app.errors import ServiceError
from app.groups.read import COUNTERS, FILTERS, GROUPS, page_groups
from app.http.console.guard import may, signed_in
from app.http.console.pages import link, page_after
from app.http.console.searches import Search, day_file
from app.http.context import services
from app.http.paths import path_id
from blueprints.console.blueprint import blp

SEARCH = Search(
    path=PATH,
    title="Groups",
    template="groups.html",
    text_filter=name_filter,
    find=lambda search_request: search_request.read_page(PATH, GROUPS.resource, page_groups),
    columns=("id", "name", "type", "creation_time", "last_sent_time", *COUNTERS),
    context=lambda: {"types": FILTERS["type"].options},
)
blp.searches(SEARCH, "report.view")


@blp.shows("/groups/<group_id>", "report.view")
def group(group_id: str) -> Response:
    """The report of a group, beside that of the group that `beside` names."""
    beside_id, refusal = request.args.get("beside", "").strip(), None
    with services().reports.read(signed_in().account_id) as session:
        report, other = _report(session, path_id(group_id)), None
        groups = newest(session, Group, report.account_id, Group.type == report.group["type"])
        if beside_id:
            try:
                other = _other(session, report, beside_id)
            except ServiceError as error:
                refusal = error
    return page_after(
        refusal,
        "group.html",
        report=report,
        other=other,
        rows=list(beside(report, other)),
        beside_id=beside_id,
        groups=groups,
        latest=LATEST_MESSAGES,
        sees_links=may("contact.view"),
        messages=link("/console/messages", [("group_id", str(report.group["id"]))], report.account_id),
        csv=f"{path_of_group(report.group['id'])}/day.csv",
    )


@blp.shows("/groups/<group_id>/day.csv", "report.view")
def day(group_id: str) -> Response:
    """The last hours of a group in numbers: a row for each, the newest first."""
    with services().reports.read(signed_in().account_id) as session:
        owner = owner_of_group(session, signed_in().account_id, path_id(group_id))
        return day_file(day_of_group(session, owner, path_id(group_id), now()))


def _report(session: ReadSession, group_id: int) -> Report:
    owner = owner_of_group(session, signed_in().account_id, group_id)
    return report_of(session, owner, group_id, now())


def _other(session: ReadSession, report: Report, beside_id: str) -> Report:
    """The report of another group of the same account. Raises `invalid_id`, `not_found`."""
    other_id = find_group_id(session, report.account_id, beside_id)
    return report_of(session, report.account_id, other_id, now())
