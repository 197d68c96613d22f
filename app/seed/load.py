"""Loading a seed file: all of it in one transaction, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy.exc import IntegrityError

from app.seed.accounts import bring_account, bring_domains, bring_keys, bring_senders
from app.seed.contacts import upsert_contacts
from app.seed.lists import bring_lists
from app.seed.messages import bring_messages
from app.seed.nouns import FILE
from app.seed.read import read_file
from app.seed.report import SeedReport
from app.seed.shape import SeedError
from app.seed.suppressions import bring_blocked, bring_unsubscribers
from app.seed.target import Target
from app.seed.webhooks import Urls, bring_webhooks, check_urls
from app.services import Services


def load_seed(services: Services, path: Path, substitutions: Mapping[str, str] | None = None) -> SeedReport:
    """Brings the database to the state that the file describes and tells what that took.

    `substitutions` replace `${NAME}` in the file. Raises `SeedError`, which names the offending path; nothing has
    changed then.
    """
    data = read_file(path, substitutions or {})
    described = FILE({} if data is None else data, "").get("accounts", [])
    report, urls = SeedReport(), check_urls(services.settings, described)
    try:
        with services.database.write() as transaction:
            for index, account in enumerate(described):
                target = bring_account(services, transaction, account, f"accounts[{index}]")
                report.accounts.append(target.report)
                _bring_parts(target, account, urls)
    except IntegrityError:
        raise SeedError("", "somebody else wrote the same things at this moment; load the file again") from None
    return report


def _bring_parts(target: Target, account: Mapping[str, Any], urls: Urls) -> None:
    """The parts of an account, each after those it names.

    Unsubscribers come before contacts, so that new contacts start with the right flags. Webhooks come last: an event
    goes only to webhooks that existed when it happened (docs/webhooks.md), and news of the seed itself are of no use.
    """
    bring_keys(target, account.get("keys", []))
    bring_domains(target, account.get("domains", []))
    lists = bring_lists(target, account.get("lists", []))
    bring_senders(target, account.get("sms_senders", []))
    bring_unsubscribers(target, account.get("unsubscribers", []))
    bring_blocked(target, account.get("blocked", []))
    for path, row, contacts in lists:
        upsert_contacts(target, row, contacts, path, account.get("unsubscribers", []))
    bring_messages(target, account.get("messages", []))
    bring_webhooks(target, account.get("webhooks", []), urls)
