"""Sending domains as the commands of `flask domains` show them: with their records and keys."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from app.accounts.dns_records import Record, records_to_publish
from app.accounts.signing_keys import keys_of_domains, published_keys
from app.cli.base import Row, echo, print_row
from app.db.models import DkimKey, Domain
from app.http.context import services
from app.inbound.domain_reports.address import report_address
from app.tracking.sender_hosts import SenderHosts, settings_for

SHOWN = (
    *("id", "name", "verified", "trusted", "verified_time", "checked_time", "creation_time", "links", "return_path"),
)
KEY_COLUMNS = ("selector", "algorithm", "state", "creation_time", "retired_time")


def records_of(domain: Domain, keys: Sequence[DkimKey]) -> list[Record]:
    """The records to publish for the domain."""
    settings = services().settings
    return records_to_publish(settings, domain, published_keys(keys), report_address(settings, domain.id))


def domain_rows(session: Session, domains: Sequence[Domain]) -> list[Row]:
    """The domains with their records and the findings of the last lookup."""
    keys = keys_of_domains(session, [domain.id for domain in domains])
    return [_row(domain, keys[domain.id]) for domain in domains]


def _row(domain: Domain, keys: Sequence[DkimKey]) -> Row:
    records = records_of(domain, keys)
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
        **_hosts(domain),
        "records": [_record(one, states.get((one.purpose, one.name, one.type), {})) for one in records],
        "keys": [{name: getattr(key, name) for name in KEY_COLUMNS} for key in keys],
    }


def _hosts(domain: Domain) -> Row:
    """The hosts of the domain, and what is in use as long as they are not ready."""
    in_use = SenderHosts(
        domain.tracking_host if domain.trusted or domain.tracking_host_ready else None,
        domain.return_path_host if domain.trusted or domain.return_path_host_ready else None,
    )
    hosts = settings_for(services().settings, in_use)
    return {
        "tracking_host": domain.tracking_host,
        "return_path_host": domain.return_path_host,
        "links": hosts.public_url,
        "return_path": f"bounces+…@{hosts.bounce_domain or domain.name}",
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
