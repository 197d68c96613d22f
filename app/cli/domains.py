"""`flask domains`: sending domains, the DNS records that they need, their keys, and the reports about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

import click
from sqlalchemy.orm import Session

from app.accounts.dns_records import Record
from app.accounts.domain_hosts import set_hosts
from app.accounts.domains import add_domain, delete_domain, find_domain, list_domains
from app.accounts.find import find_account
from app.accounts.signing_keys import import_key, remove_key, rotate_keys
from app.cli.base import (
    Group,
    Row,
    WrongValue,
    account_option,
    accounts_option,
    echo,
    json_option,
    limit_option,
    print_done,
    print_row,
    print_rows,
    rows_of_accounts,
)
from app.db.models import Domain
from app.distribution import COMMAND_LINE
from app.http.context import services
from app.inbound.domain_reports.read import COLUMNS, domain_reports, failing_sources
from app.maintenance import sending_domains
from app.maintenance.domain_check import verify_domain

group = Group("domains", help="Sending domains: mail may only come from a verified one.")

# Sending domains as the commands of `flask domains` show them: with their records and keys.

SHOWN = (
    *("id", "name", "verified", "trusted", "verified_time", "checked_time", "creation_time", "links", "return_path"),
)


def domain_rows(session: Session, domains: Sequence[Domain]) -> list[Row]:
    """The domains with their records and the findings of the last lookup."""
    return sending_domains.domain_rows(session, services().settings, domains)


def print_domain(row: Row, as_json: bool) -> None:
    """Prints a domain; for people, with its records as lines of a zone file below."""
    if as_json:
        print_row(row, as_json)
        return
    print_row({name: row[name] for name in SHOWN}, as_json)
    echo("records to publish:")
    print_records(row["records"])
    echo("keys:")
    for key in row["keys"]:
        since = f" since {key['retired_time']:%Y-%m-%d}" if key["retired_time"] else ""
        echo(f"  {key['selector']}  {key['algorithm']}  {key['state']}{since}")


def print_records(records: Sequence[Row]) -> None:
    """Prints records as lines of a zone file, each with its state, and what was found in place of a wrong one."""
    for one in records:
        state = f"  ; {one['state']}" if one["state"] else ""
        echo(f"  {Record(one['purpose'], one['name'], one['type'], one['value']).zone_line()}{state}")
        for text in one["found"] if one["state"] in ("wrong", "unknown") else ():
            echo(f"    found: {text}")


# `flask domains rotate`, `import-key` and `remove-key`: the keys that sign mail of a domain.

MAX_CHARACTERS = 100_000
"""Of a file that may be a key."""
selector_option = click.option(
    "--selector",
    help="The selector of the new RSA key; that of the Ed25519 key ends in -ed25519. Default: a random one.",
)


def _text(file: TextIO) -> str:
    """The text of the file, as far as it can be a key."""
    try:
        return file.read(MAX_CHARACTERS)
    except UnicodeDecodeError:
        return ""


@group.command("rotate", epilog=f"They sign once `{COMMAND_LINE} domains verify` finds their records.")
@click.argument("name")
@selector_option
@account_option
@json_option
def rotate(name: str, selector: str | None, account: str | None, as_json: bool) -> None:
    """Make new keys beside those that sign."""
    parts = services()
    with parts.database.write() as transaction:
        domain = find_domain(transaction, find_account(transaction, account).id, name)
        rotate_keys(transaction, domain, parts.settings.secret_key, selector)
        (row,) = domain_rows(transaction, [domain])
    print_domain(row, as_json)


@group.command("import-key", epilog=f"It signs once `{COMMAND_LINE} domains verify` finds its record.")
@click.argument("name")
@click.option("--selector", required=True, help="The selector under which its public key is published.")
@click.option(
    "--key", "file", type=click.File("r"), required=True, help="The private key as PEM; - for standard input."
)
@account_option
@json_option
def import_key_(name: str, selector: str, file: TextIO, account: str | None, as_json: bool) -> None:
    """Import a private key of your own."""
    parts = services()
    pem = _text(file)
    with parts.database.write() as transaction:
        domain = find_domain(transaction, find_account(transaction, account).id, name)
        import_key(transaction, domain, parts.settings.secret_key, selector, pem)
        (row,) = domain_rows(transaction, [domain])
    print_domain(row, as_json)


@group.command("remove-key")
@click.argument("name")
@click.argument("selector")
@account_option
@json_option
def remove_key_(name: str, selector: str, account: str | None, as_json: bool) -> None:
    """Remove a key that does not sign, or one of several that do."""
    with services().database.write() as transaction:
        domain = find_domain(transaction, find_account(transaction, account).id, name)
        remove_key(transaction, domain, selector)
    print_done(f"removed the key {selector} of {name}", {"name": name, "selector": selector, "removed": True}, as_json)


# `flask domains reports`: what other mail servers report about a domain.


@group.command("reports")
@click.argument("name")
@click.option("--kind", type=click.Choice(["dmarc", "tls"]), help="Only reports of this kind.")
@click.option("--failures", is_flag=True, help="Add up what failed, by its source.")
@limit_option
@account_option
@json_option
def reports_command(
    name: str, *, kind: str | None, failures: bool, limit: int, account: str | None, as_json: bool
) -> None:
    """Show the DMARC and TLS reports about a domain, the newest first."""
    with services().database.read() as session:
        domain = find_domain(session, find_account(session, account).id, name)
        reports = domain_reports(session, domain, kind=kind, limit=limit)
    if failures:
        print_rows(failing_sources(reports), as_json)
        return
    print_rows(reports if as_json else [{name: report[name] for name in COLUMNS} for report in reports], as_json)


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
@selector_option
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
