"""Sending domains as the commands of `flask domains` show them: with their records and keys."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from app.accounts.dns_records import Record
from app.cli.base import Row, echo, print_row
from app.db.models import Domain
from app.http.context import services
from app.maintenance import sending_domains

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
