"""`flask domains`: sending domains, and the DNS records that they need."""

from __future__ import annotations

from collections.abc import Sequence

import click
from sqlalchemy.orm import Session

from app.accounts.dns_records import Record, records_to_publish
from app.accounts.domains import add_domain, delete_domain, find_domain, list_domains, note_findings
from app.accounts.find import find_account
from app.accounts.signing_keys import keys_of_domains
from app.accounts.verify import find, look_up_with
from app.cli.base import (
    Group,
    Row,
    account_option,
    accounts_option,
    echo,
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
    "Not verified: sends from it are refused. Publish the records, then run `domains verify`; or run `domains add` "
    "with --trust to send without them."
)
SHOWN = ("id", "name", "verified", "trusted", "verified_time", "checked_time", "creation_time", "return_path")


def _rows(session: Session, domains: Sequence[Domain]) -> list[Row]:
    """The domains with their records and the findings of the last lookup."""
    keys = keys_of_domains(session, [domain.id for domain in domains])
    return [_row(domain, records_to_publish(services().settings, domain.name, keys[domain.id])) for domain in domains]


def _row(domain: Domain, records: Sequence[Record]) -> Row:
    findings = (domain.findings or {}).get("records", [])
    states = {(one["purpose"], one["name"], one["type"]): one for one in findings}
    return {
        "id": domain.id,
        "name": domain.name,
        "verified": domain.verified_time is not None,
        "trusted": domain.trusted,
        "verified_time": domain.verified_time,
        "checked_time": domain.checked_time,
        "creation_time": domain.creation_time,
        "return_path": f"bounces+…@{services().settings.bounce_domain or domain.name}",
        "records": [_record(one, states.get((one.purpose, one.name, one.type), {})) for one in records],
    }


def _record(record: Record, finding: Row) -> Row:
    return {
        "purpose": record.purpose,
        "name": record.name,
        "type": record.type,
        "value": record.value,
        "state": finding.get("state"),
        "found": finding.get("found", []),
    }


def _print(row: Row, as_json: bool) -> None:
    """Prints a domain; for people, with its records as lines of a zone file below."""
    if as_json:
        print_row(row, as_json)
        return
    print_row({name: row[name] for name in SHOWN}, as_json)
    echo("records to publish:")
    for one in row["records"]:
        state = f"  ; {one['state']}" if one["state"] else ""
        echo(f"  {Record(one['purpose'], one['name'], one['type'], one['value']).zone_line()}{state}")
        for text in one["found"] if one["state"] in ("wrong", "unknown") else ():
            echo(f"    found: {text}")


@group.command("list")
@accounts_option
@json_option
def list_(account: str | None, as_json: bool) -> None:
    """Show the domains of an account, or of all."""
    with services().database.read() as session:
        rows = rows_of_accounts(session, account, lambda one: _rows(session, list_domains(session, one)))
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
        (row,) = _rows(session, [find_domain(session, find_account(session, account).id, name)])
    _print(row, as_json)


@group.command("add")
@click.argument("name")
@click.option("--trust", is_flag=True, help="Mark it as verified without checking its DNS records.")
@account_option
@json_option
def add(name: str, trust: bool, account: str | None, as_json: bool) -> None:
    """Add a domain with keys to sign its mail, or trust an existing one; shows the DNS records to publish."""
    parts = services()
    with parts.database.write() as transaction:
        account_id = find_account(transaction, account).id
        add_domain(transaction, account_id, name, trusted=trust, secret_key=parts.settings.secret_key)
        (row,) = _rows(transaction, [find_domain(transaction, account_id, name)])
    _print(row, as_json)
    if not row["verified"]:
        echo(UNVERIFIED, err=True)


@group.command("verify")
@click.argument("name")
@account_option
@json_option
def verify(name: str, account: str | None, as_json: bool) -> None:
    """Look up the DNS records of a domain. It is verified if SPF and one DKIM record are correct."""
    parts = services()
    with parts.database.read() as session:
        domain = find_domain(session, find_account(session, account).id, name)
        keys = keys_of_domains(session, [domain.id])[domain.id]
    look_up = look_up_with(parts.settings)
    findings = [find(record, look_up) for record in records_to_publish(parts.settings, domain.name, keys)]
    with parts.database.write() as transaction:
        domain = find_domain(transaction, domain.account_id, name)
        note_findings(domain, findings)
        transaction.flush()
        (row,) = _rows(transaction, [domain])
    _print(row, as_json)
    if not row["verified"]:
        echo(UNVERIFIED, err=True)


@group.command("delete")
@click.argument("name")
@account_option
@json_option
def delete(name: str, account: str | None, as_json: bool) -> None:
    """Remove a domain; sends from it are refused from now on."""
    with services().database.write() as transaction:
        delete_domain(transaction, find_account(transaction, account).id, name)
    print_done(f"deleted domain {name}", {"name": name, "deleted": True}, as_json)
