"""`flask domains reports`: what other mail servers report about a domain."""

from __future__ import annotations

import click
from flask.cli import with_appcontext

from app.accounts.domains import find_domain
from app.accounts.find import find_account
from app.cli.base import Command, account_option, json_option, limit_option, print_rows
from app.http.context import services
from app.inbound.domain_reports.read import COLUMNS, domain_reports, failing_sources


@click.command("reports", cls=Command)
@click.argument("name")
@click.option("--kind", type=click.Choice(["dmarc", "tls"]), help="Only reports of this kind.")
@click.option("--failures", is_flag=True, help="Add up what failed, by its source.")
@limit_option
@account_option
@json_option
@with_appcontext
def command(name: str, *, kind: str | None, failures: bool, limit: int, account: str | None, as_json: bool) -> None:
    """Show the DMARC and TLS reports about a domain, the newest first."""
    with services().database.read() as session:
        domain = find_domain(session, find_account(session, account).id, name)
        reports = domain_reports(session, domain, kind=kind, limit=limit)
    if failures:
        print_rows(failing_sources(reports), as_json)
        return
    print_rows(reports if as_json else [{name: report[name] for name in COLUMNS} for report in reports], as_json)
