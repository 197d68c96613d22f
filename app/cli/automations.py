"""`flask automations`: triggers that have fired."""

from __future__ import annotations

from sqlalchemy import select

from app.automations.triggers import trigger_names
from app.cli.base import Group, Row, accounts_option, json_option, limit_option, print_rows, rows_of_accounts
from app.db.models import TriggerFiring
from app.http.context import services

group = Group("automations", help="Automations: their triggers fire when contacts are created or updated.")


def _row(firing: TriggerFiring) -> Row:
    triggers = trigger_names("created" if firing.action == "created" else "updated")
    return {
        "time": firing.time,
        "list_id": firing.list_id,
        "contact_id": firing.contact_id,
        "standard_trigger": triggers["standard"],
        "advanced_trigger": triggers["advanced"],
    }


@group.command("firings")
@limit_option
@accounts_option
@json_option
def firings(limit: int, account: str | None, as_json: bool) -> None:
    """Show the latest firings of triggers, with their name in each kind of automation."""
    latest = select(TriggerFiring).order_by(TriggerFiring.id.desc()).limit(limit)
    with services().database.read() as session:
        rows = rows_of_accounts(
            session, account, lambda one: map(_row, session.scalars(latest.where(TriggerFiring.account_id == one)))
        )
    print_rows(rows, as_json)
