"""`flask domains`: sending domains, the DNS records that they need, their keys, and the reports about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

import click
from sqlalchemy.orm import Session

from app.accounts.dns_records import Record
from app.accounts.domain_hosts import set_hosts
from app.accounts.domains import add_domain, delete_domain, find_domain, list_domains
from app.accounts.signing_keys import import_key, remove_key, rotate_keys
from app.cli.base import (
    CommandResult,
    Group,
    NamedItem,
    Row,
    WrongValue,
    columns,
    echo,
    limit_option,
    print_row,
)
from app.db.database import Transaction
from app.db.models import Account, Domain
from app.distribution import COMMAND_LINE
from app.http.context import services
from app.inbound.domain_reports.read import COLUMNS, domain_reports, failing_sources
from app.maintenance import sending_domains
from app.maintenance.domain_check import verify_domain
from app.services import Services

group = Group("domains", help="Sending domains: mail can only be sent from a verified domain.")
DOMAIN = NamedItem(click.argument("named", metavar="NAME"), find_domain)

# Sending domains as the commands of `flask domains` show them: with their records and keys.

ROW_COLUMNS = (
    *("id", "name", "verified", "trusted", "verified_time", "checked_time", "creation_time", "links", "return_path"),
)


UNVERIFIED_NOTE = (
    f"Not verified: sends from this domain are refused. Publish the records, then run `{COMMAND_LINE} domains verify`. "
    f"To send without the records, run `{COMMAND_LINE} domains add` with --trust."
)


def domain_row(session: Session, domain: Domain) -> Row:
    """The domain with its records and the findings of the last lookup."""
    (row,) = sending_domains.domain_rows(session, services().settings, [domain])
    return row


def print_domain(row: Row, as_json: bool) -> None:
    """Prints a domain; for people, with its records as lines of a zone file below."""
    if as_json:
        print_row(row, as_json)
        return
    print_row({name: row[name] for name in ROW_COLUMNS}, as_json)
    echo("records to publish:")
    print_records(row["records"])
    echo("keys:")
    for key in row["keys"]:
        since = f" since {key['retired_time']:%Y-%m-%d}" if key["retired_time"] else ""
        echo(f"  {key['selector']}  {key['algorithm']}  {key['state']}{since}")


def print_with_warning(row: Row, as_json: bool) -> None:
    """Prints a domain, and on standard error that it is not verified."""
    print_domain(row, as_json)
    if not row["verified"]:
        echo(UNVERIFIED_NOTE, err=True)


def print_records(records: Sequence[Row]) -> None:
    """Prints records as lines of a zone file, each with its state, and what was found in place of a wrong one."""
    for record in records:
        state = f"  ; {record['state']}" if record["state"] else ""
        echo(f"  {Record(record['purpose'], record['name'], record['type'], record['value']).zone_line()}{state}")
        for text in record["found"] if record["state"] in ("wrong", "unknown") else ():
            echo(f"    found: {text}")


# `flask domains rotate`, `import-key` and `remove-key`: the keys that sign mail of a domain.

MAX_CHARACTERS = 100_000
"""How long a file may be that is read as a key."""
selector_option = click.option(
    "--selector",
    help="The selector of the new RSA key. The selector of the Ed25519 key adds -ed25519. Default: a random selector.",
)


def _text(_context: click.Context, _parameter: click.Parameter, file: TextIO) -> str:
    """The text of the file, as far as it can be a key."""
    try:
        return file.read(MAX_CHARACTERS)
    except UnicodeDecodeError:
        return ""


@group.writes(
    "rotate",
    DOMAIN,
    print_domain,
    needs_key=True,
    epilog=f"The new keys sign mail after `{COMMAND_LINE} domains verify` finds their records.",
)
@selector_option
def rotate(transaction: Transaction, domain: Domain, selector: str | None) -> Row:
    """Make new keys beside those that sign. They take over once their records are verified."""
    rotate_keys(transaction, domain, services().settings.secret_key, selector)
    return domain_row(transaction, domain)


@group.writes(
    "import-key",
    DOMAIN,
    print_domain,
    needs_key=True,
    epilog=f"The key signs mail after `{COMMAND_LINE} domains verify` finds its record.",
)
@click.option("--selector", required=True, help="The selector under which its public key is published.")
@click.option(
    "--key",
    "pem",
    type=click.File("r"),
    callback=_text,
    required=True,
    help="The private key in PEM format. Use - for standard input.",
)
def import_key_(transaction: Transaction, domain: Domain, selector: str, pem: str) -> Row:
    """Import a private key of your own. It signs once its record is verified."""
    import_key(transaction, domain, services().settings.secret_key, selector, pem)
    return domain_row(transaction, domain)


@group.writes("remove-key")
@click.argument("name")
@click.argument("selector")
def remove_key_(transaction: Transaction, account: Account, name: str, selector: str) -> CommandResult:
    """Remove a DKIM key. At least one signing key must remain."""
    remove_key(transaction, find_domain(transaction, account.id, name), selector)
    return CommandResult(f"removed the key {selector} of {name}", {"name": name, "selector": selector, "removed": True})


# `flask domains reports`: what other mail servers report about a domain.


@group.reads("reports", DOMAIN, columns("kind", "source", "about", "count", *COLUMNS[1:]))
@click.option("--kind", type=click.Choice(["dmarc", "tls"]), help="Only reports of this kind.")
@click.option("--failures", is_flag=True, help="Add up failures by source.")
@limit_option
def reports_(session: Session, domain: Domain, *, kind: str | None, failures: bool, limit: int) -> Sequence[Row]:
    """Show the DMARC and TLS reports about a domain, newest first."""
    reports = domain_reports(session, domain, kind=kind, limit=limit)
    return failing_sources(reports) if failures else reports


@group.reads("list", "all accounts", columns("account", *ROW_COLUMNS))
def list_(session: Session, account: Account) -> list[Row]:
    """Show the domains of one account or of all accounts."""
    return sending_domains.domain_rows(session, services().settings, list_domains(session, account.id))


@group.reads("show", DOMAIN, print_domain)
def show(session: Session, domain: Domain) -> Row:
    """Show a domain and the DNS records to publish for it."""
    return domain_row(session, domain)


@group.writes("add", shows=print_with_warning, needs_key=True)
@click.argument("name")
@click.option("--trust", is_flag=True, help="Allow sends from the domain without checking its DNS records.")
@selector_option
def add(transaction: Transaction, account: Account, name: str, trust: bool, selector: str | None) -> Row:
    """Add a domain with keys to sign its mail, or trust an existing one; shows the DNS records to publish. Sends from
    the domain are refused until it is verified or trusted."""
    secret_key = services().settings.secret_key
    add_domain(transaction, account.id, name, trusted=trust, secret_key=secret_key, selector=selector)
    row = domain_row(transaction, find_domain(transaction, account.id, name))
    if selector is not None and selector not in {key["selector"] for key in row["keys"]}:
        making = f"`{COMMAND_LINE} domains rotate` creates new keys"
        raise WrongValue(f"{name} already has keys with other selectors; {making}")
    return row


@group.writes(
    "update",
    DOMAIN,
    print_domain,
    epilog=f"The hosts are used after `{COMMAND_LINE} domains verify` finds their records.",
)
@click.option("--tracking-host", metavar="HOST", help="Host of the links in its mail. Empty: the host of PUBLIC_URL.")
@click.option(
    "--return-path-host", metavar="HOST", help="Domain of its return path. Empty: BOUNCE_DOMAIN, or the domain itself."
)
def update(transaction: Transaction, domain: Domain, **hosts: str | None) -> Row:
    """Set the tracking host and the return-path host of a domain."""
    given = {attribute: host for attribute, host in hosts.items() if host is not None}
    set_hosts(transaction, domain, given, by_operator=True)
    return domain_row(transaction, domain)


@group.runs("verify", shows=print_with_warning)
@click.argument("name")
def verify(parts: Services, account: Account, name: str) -> Row:
    """Look up the DNS records of a domain. The domain is verified if SPF and one DKIM record are correct.

    Pending keys with correct records replace the former keys.
    """
    return verify_domain(parts, account.id, name)


@group.writes("delete")
@click.argument("name")
def delete(transaction: Transaction, account: Account, name: str) -> CommandResult:
    """Delete a domain. New sends from it are refused. Waiting mail is retried until its retry period
    ends."""
    delete_domain(transaction, account.id, name)
    return CommandResult(f"deleted domain {name}", {"name": name, "deleted": True})
