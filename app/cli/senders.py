"""`flask senders`: approved senders of text messages."""

from __future__ import annotations

import click
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.cli.base import (
    Group,
    Row,
    account_option,
    accounts_option,
    json_option,
    print_done,
    print_row,
    print_rows,
    rows_of_accounts,
)
from app.db.lookup import find_by_name_or_id
from app.db.models import List, SmsSender
from app.http.context import services
from app.ids import shown_id
from app.senders.senders import KINDS, create_sender, find_sender, list_senders, update_sender

group = Group("senders", help="Senders that the account may send text messages from.")

kind_choice = click.Choice(KINDS)
rate_option = click.option(
    "--rate", type=float, metavar="N", help="Messages per second that the gateway accepts from it; 0: no limit."
)


def _row(session: Session, sender: SmsSender) -> Row:
    assigned = session.get(List, sender.list_id) if sender.list_id else None
    return {
        "id": sender.id,
        "address": sender.address,
        "kind": sender.kind,
        "list_id": shown_id(sender.list_id),
        "list": assigned.name if assigned else None,
        "messages_per_second": sender.messages_per_second,
        "creation_time": sender.creation_time,
    }


def _list_id(session: Session, account_id: int, name: str | None) -> int | None:
    return find_by_name_or_id(session, List, account_id, name, "list").id if name else None


@group.command("list")
@accounts_option
@json_option
def list_(account: str | None, as_json: bool) -> None:
    """Show the senders of an account, or of all."""
    with services().database.read() as session:
        rows = rows_of_accounts(
            session, account, lambda one: [_row(session, sender) for sender in list_senders(session, one)]
        )
    print_rows(rows, as_json)


@group.command("show")
@click.argument("address")
@account_option
@json_option
def show(address: str, account: str | None, as_json: bool) -> None:
    """Show a sender."""
    with services().database.read() as session:
        row = _row(session, find_sender(session, find_account(session, account).id, address))
    print_row(row, as_json)


@group.command("create")
@click.argument("address")
@click.option("--kind", type=kind_choice, required=True)
@click.option("--list", "list_", metavar="NAME|ID", help="The only list that it may be used for.")
@rate_option
@click.option("--shared", is_flag=True, help="Also if another account has the number: replies go to who wrote last.")
@account_option
@json_option
def create(
    *, address: str, kind: str, list_: str | None, rate: float | None, shared: bool, account: str | None, as_json: bool
) -> None:
    """Approve a sender: a number in international format, or up to 11 letters and digits."""
    with services().database.write() as transaction:
        account_id = find_account(transaction, account).id
        list_id = _list_id(transaction, account_id, list_)
        sender = create_sender(transaction, account_id, address, kind, list_id, rate=rate or None, shared=shared)
        row = _row(transaction, sender)
    print_row(row, as_json)


@group.command("update")
@click.argument("address")
@click.option("--kind", type=kind_choice)
@click.option("--list", "list_", metavar="NAME|ID", help="The only list that it may be used for; empty: any.")
@rate_option
@account_option
@json_option
def update(
    *, address: str, kind: str | None, list_: str | None, rate: float | None, account: str | None, as_json: bool
) -> None:
    """Change kind, list or rate of a sender."""
    with services().database.write() as transaction:
        account_id = find_account(transaction, account).id
        sender = find_sender(transaction, account_id, address)
        list_id = sender.list_id if list_ is None else _list_id(transaction, account_id, list_)
        kept = sender.messages_per_second if rate is None else rate or None
        update_sender(sender, kind=kind or sender.kind, list_id=list_id, rate=kept)
        transaction.flush()
        row = _row(transaction, sender)
    print_row(row, as_json)


@group.command("delete")
@click.argument("address")
@account_option
@json_option
def delete(address: str, account: str | None, as_json: bool) -> None:
    """Withdraw the approval of a sender; what waits is sent once it is approved again."""
    with services().database.write() as transaction:
        transaction.delete(find_sender(transaction, find_account(transaction, account).id, address))
    print_done(f"deleted sender {address}", {"address": address, "deleted": True}, as_json)
