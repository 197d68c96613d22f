"""Loading a seed file: all of it in one transaction, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy.exc import IntegrityError

from app.audit.record import Act, record
from app.seed.accounts import apply_account, apply_keys, apply_tests
from app.seed.errors import SeedError
from app.seed.nouns import (
    RESOURCES,
    apply_automations,
    apply_contacts,
    apply_domains,
    apply_lists,
    apply_messages,
    checked_file,
)
from app.seed.read import read_file
from app.seed.report import SeedContext, SeedReport
from app.seed.resource import apply_resource
from app.seed.suppressions import apply_blocked, apply_unsubscribers
from app.seed.transports import apply_routing
from app.seed.webhooks import Urls, apply_webhooks, check_urls
from app.services import Services


def load_seed(services: Services, path: Path, substitutions: Mapping[str, str] | None = None) -> SeedReport:
    """Brings the database to the state that the file describes and reports the changes.

    `substitutions` replace `${NAME}` in the file. Raises `SeedError`, which names the invalid path; nothing has changed
    then.
    """
    data = read_file(path, substitutions or {})
    file = checked_file({} if data is None else data)
    entries = file.get("accounts", [])
    report, urls = SeedReport(), check_urls(services.settings, entries)
    try:
        with services.database.write() as transaction:
            for index, account in enumerate(entries):
                context = apply_account(services, transaction, account, f"accounts[{index}]")
                report.accounts.append(context.report)
                _apply_parts(context, account, urls)
                _record(context)
            apply_routing(
                services, transaction, file.get("transports", []), file.get("routes", []), report.installation
            )
    except IntegrityError:
        raise SeedError("", "another process wrote the same rows at the same time; load the file again") from None
    return report


def _record(context: SeedContext) -> None:
    """One entry with counts, beside those of what people set up."""
    report, account = context.report, context.account
    counts = {
        f"{noun.replace(' ', '_')}_{done}": count
        for done, counted in (("created", report.created), ("updated", report.updated))
        for noun, count in counted.items()
        if count
    }
    if counts:
        record(context.transaction, Act("account.seeded", account.id, account.id, account.name, counts=counts))


def _apply_parts(context: SeedContext, account: Mapping[str, Any], urls: Urls) -> None:
    """The parts of an account, each after those that it refers to.

    Unsubscribers come before contacts, so that new contacts start with the right flags. Webhooks come last: an event
    goes only to webhooks that existed when it happened (docs/webhooks.md), and events of the seed itself are of no use.
    So do automations, which the contacts of the seed do not enter when it is loaded for the first time. What
    is of tests comes last, because the test account has copies of the rest.
    """
    context.report.count("key", created=False)  # the report names keys first, although they refer to lists
    apply_domains(context, account.get("domains", []))
    lists = apply_lists(context, account.get("lists", []))
    apply_keys(context, account.get("keys", []))
    for resource in RESOURCES:
        apply_resource(context, resource, account.get(resource.seed_key, []))
    apply_unsubscribers(context, account.get("unsubscribers", []))
    apply_blocked(context, account.get("blocked", []))
    for path, row, contacts in lists:
        apply_contacts(context, row, contacts, path, account.get("unsubscribers", []))
    apply_messages(context, account.get("messages", []))
    apply_webhooks(context, account.get("webhooks", []), urls)
    apply_automations(context, account.get("automations", []))
    apply_tests(context, account.get("keys", []), account.get("webhooks", []), urls)
