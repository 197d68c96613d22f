"""`flask contacts export-person`: all that is held about a person (docs/privacy.md#handing-out)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain

import click
from flask.cli import with_appcontext

from app.cli.addresses import address_kind
from app.cli.base import Command, Failure, account_option, json_option, print_part_of_json, print_rows
from app.cli.forget_person import accounts_of, all_accounts_option, record_act_on_person
from app.http.context import services
from app.privacy.export import Found, document, export_person
from app.privacy.forget import sizes


@click.command("export-person", cls=Command)
@click.argument("address")
@all_accounts_option
@account_option
@json_option
@with_appcontext
def export_(address: str, *, all_accounts: bool, account: str | None, as_json: bool) -> None:
    """Hand out all that is held about the person with an email address or a mobile number, as JSON; without --json,
    only how much there is of it. Ends with 1 if nothing is held."""
    kind, accounts = address_kind(address), accounts_of(account, all_accounts)
    found = export_person(services(), accounts, kind, address)
    first = next(found, None)
    if first is None:
        raise Failure(f"nothing is held about {address}")
    counts = sizes(services(), accounts, kind, address)
    record_act_on_person("person.exported", address, None if all_accounts else accounts[0], counts)
    if as_json:
        for text in document(kind, address, chain([first], found)):
            print_part_of_json(text)
        return
    _print_counts(first, found)


def _print_counts(first: Found, others: Iterable[Found]) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    for account, place, rows in (first, *others):
        counts[account, place] += len(rows)
    print_rows(
        [{"account": account, "place": place, "held": count} for (account, place), count in counts.items()], False
    )
