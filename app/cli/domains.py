"""`flask domains`: sending domains."""

from __future__ import annotations

import click

from app.accounts.domains import add_domain, delete_domain, find_domain, list_domains
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
from app.db.models import Domain
from app.http.context import services

group = Group("domains", help="Sending domains: mail may only come from a verified one.")

UNVERIFIED = (
    "Not verified: sends from it are refused. When SPF and DKIM records of the domain let this service send for it, "
    "run the command again with --trust."
)


def _row(domain: Domain) -> Row:
    return {
        "id": domain.id,
        "name": domain.name,
        "verified": domain.verified_time is not None,
        "verified_time": domain.verified_time,
        "creation_time": domain.creation_time,
    }


@group.command("list")
@accounts_option
@json_option
def list_(account: str | None, as_json: bool) -> None:
    """Show the domains of an account, or of all."""
    with services().database.read() as session:
        rows = rows_of_accounts(session, account, lambda one: map(_row, list_domains(session, one)))
    print_rows(rows, as_json)


@group.command("show")
@click.argument("name")
@account_option
@json_option
def show(name: str, account: str | None, as_json: bool) -> None:
    """Show a domain."""
    with services().database.read() as session:
        row = _row(find_domain(session, find_account(session, account).id, name))
    print_row(row, as_json)


@group.command("add")
@click.argument("name")
@click.option("--trust", is_flag=True, help="Take it as verified without looking at its DNS records.")
@account_option
@json_option
def add(name: str, trust: bool, account: str | None, as_json: bool) -> None:
    """Add a domain, or trust one that is there."""
    with services().database.write() as transaction:
        account_id = find_account(transaction, account).id
        add_domain(transaction, account_id, name, trusted=trust)
        row = _row(find_domain(transaction, account_id, name))
    print_row(row, as_json)
    if not row["verified"]:
        click.echo(UNVERIFIED, err=True)


@group.command("delete")
@click.argument("name")
@account_option
@json_option
def delete(name: str, account: str | None, as_json: bool) -> None:
    """Remove a domain; sends from it are refused from now on."""
    with services().database.write() as transaction:
        delete_domain(transaction, find_account(transaction, account).id, name)
    print_done(f"deleted domain {name}", {"name": name, "deleted": True}, as_json)
