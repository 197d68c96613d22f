"""The first page (docs/console.md#overview)."""

from __future__ import annotations

from flask import Response

from app.clock import now
from app.console.overview import account_overview, day, installation
from app.db.models import Account
from app.http.console.guard import chosen_account_id, may
from app.http.console.pages import page
from app.http.console.searches import day_file
from app.http.context import extension, services
from app.ids import existing
from app.maintenance.figures import FiguresReader
from app.maintenance.findings import are_complete
from app.maintenance.overview import Overview, overview_of
from blueprints.console.blueprint import blp


@blp.shows("", "report.view")
def overview() -> Response:
    """How things are: of the account; for operators of the installation, or of the account that `account` names."""
    account_id = chosen_account_id()
    return _installation_page() if account_id is None else _account_page(account_id)


@blp.shows("/day.csv", "report.view")
def hours() -> Response:
    """The last hours in numbers: a row for each, the newest first."""
    account_id = chosen_account_id()
    with services().reports.read(account_id) as session:
        return day_file(day(session, account_id, now()))


def _account_page(account_id: int) -> Response:
    with services().database.read() as session:
        account = existing(session.get(Account, account_id), "account", account_id)
        overview_page = account_overview(session, account, now(), in_full=may("contact.view"))
    csv = f"/console/day.csv?account={account.id}"
    return page("overview_account.html", account=account, overview=overview_page, csv=csv)


def _installation_page() -> Response:
    """The figures are those of the last reading: how often this page is loaded costs the database next to nothing."""
    reading = extension(FiguresReader).latest()
    parts, current_overview = services(), Overview({}, [], [])
    moment = now()
    with parts.database.read() as session:
        if reading is not None:
            current_overview = overview_of(parts, session, reading.figures, redis_up=reading.redis_up)
        return page(
            "overview_installation.html",
            installation=installation(session, parts.settings, current_overview, moment),
            is_known=are_complete(current_overview.figures),
            day=day(session, None, moment),
            csv="/console/day.csv",
        )
