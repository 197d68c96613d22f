"""`flask domains`: sending domains, the DNS records that they need, their keys, and the reports about them."""

from __future__ import annotations

import click

from app.accounts.domain_hosts import set_hosts
from app.accounts.domains import add_domain, delete_domain, find_domain, list_domains
from app.accounts.find import find_account
from app.cli import domain_keys, domain_reports
from app.cli.base import (
    Group,
    WrongValue,
    account_option,
    accounts_option,
    echo,
    json_option,
    print_done,
    print_rows,
    rows_of_accounts,
)
from app.cli.domain_rows import SHOWN, domain_rows, print_domain
from app.distribution import COMMAND_LINE
from app.http.context import services
from app.maintenance.domain_check import verify_domain

group = Group("domains", help="Sending domains: mail may only come from a verified one.")
for command in (*domain_keys.COMMANDS, domain_reports.command):
    group.add_command(command)

UNVERIFIED = (
    f"Not verified: sends from it are refused. Publish the records, then run `{COMMAND_LINE} domains verify`; or run "
    f"`{COMMAND_LINE} domains add` with --trust to send without them."
)


@group.command("list")
@accounts_option
@json_option
def list_(account: str | None, as_json: bool) -> None:
    """Show the domains of an account, or of all."""
    with services().database.read() as session:
        rows = rows_of_accounts(session, account, lambda one: domain_rows(session, list_domains(session, one)))
    print_rows(
        rows if as_json else [{name: row[name] for name in ("account", *SHOWN) if name in row} for row in rows], as_json
    )


@group.command("show")
@click.argument("name")
@account_option
@json_option
def show(name: str, account: str | None, as_json: bool) -> None:
    """Show a domain and the DNS records to publish for it."""
    with services().database.read() as session:
        (row,) = domain_rows(session, [find_domain(session, find_account(session, account).id, name)])
    print_domain(row, as_json)


@group.command("add")
@click.argument("name")
@click.option("--trust", is_flag=True, help="Mark it as verified without checking its DNS records.")
@domain_keys.selector_option
@account_option
@json_option
def add(name: str, trust: bool, selector: str | None, account: str | None, as_json: bool) -> None:
    """Add a domain with keys to sign its mail, or trust an existing one; shows the DNS records to publish."""
    parts = services()
    with parts.database.write() as transaction:
        account_id = find_account(transaction, account).id
        secret_key = parts.settings.secret_key
        add_domain(transaction, account_id, name, trusted=trust, secret_key=secret_key, selector=selector)
        (row,) = domain_rows(transaction, [find_domain(transaction, account_id, name)])
        if selector is not None and selector not in {key["selector"] for key in row["keys"]}:
            making = f"`{COMMAND_LINE} domains rotate` makes new ones"
            raise WrongValue(f"{name} has keys already, under other selectors; {making}")
    print_domain(row, as_json)
    if not row["verified"]:
        echo(UNVERIFIED, err=True)


@group.command("update", epilog=f"They are used once `{COMMAND_LINE} domains verify` finds their records.")
@click.argument("name")
@click.option("--tracking-host", metavar="HOST", help="Where links of its mails lead; an empty text: PUBLIC_URL.")
@click.option("--return-path-host", metavar="HOST", help="Domain of its return path; an empty text: BOUNCE_DOMAIN.")
@account_option
@json_option
def update(name: str, account: str | None, as_json: bool, **hosts: str | None) -> None:
    """Give a domain hosts of its own."""
    with services().database.write() as transaction:
        domain = find_domain(transaction, find_account(transaction, account).id, name)
        given = {attribute: host for attribute, host in hosts.items() if host is not None}
        set_hosts(transaction, domain, given, by_operator=True)
        (row,) = domain_rows(transaction, [domain])
    print_domain(row, as_json)


@group.command("verify")
@click.argument("name")
@account_option
@json_option
def verify(name: str, account: str | None, as_json: bool) -> None:
    """Look up the DNS records of a domain. It is verified if SPF and one DKIM record are correct.

    Pending keys whose records are correct take the place of the former ones.
    """
    with services().database.read() as session:
        account_id = find_account(session, account).id
    row = verify_domain(services(), account_id, name)
    print_domain(row, as_json)
    if not row["verified"]:
        echo(UNVERIFIED, err=True)


@group.command("delete")
@click.argument("name")
@account_option
@json_option
def delete(name: str, account: str | None, as_json: bool) -> None:
    """Remove a domain; sends from it are refused from now on, and what waits is sent once the account has it again."""
    with services().database.write() as transaction:
        delete_domain(transaction, find_account(transaction, account).id, name)
    print_done(f"deleted domain {name}", {"name": name, "deleted": True}, as_json)
