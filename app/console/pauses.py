"""Pausing an account, a list or a domain in the console, and going on, as `sends pause` and `sends resume` do
(docs/console.md#queues)."""

from __future__ import annotations

from dataclasses import dataclass

from app.accounts.find import find_account
from app.db.database import Transaction
from app.db.models import Account
from app.errors import ServiceError
from app.ids import existing
from app.infrastructure.queueing import SENDS
from app.sends.pauses.pause import find_pause_by_id, pause, resume, subject_of
from app.services import Services

KINDS = {"account": "Everything of the account", "list": "What is sent to a list", "domain": "Mail to a domain"}
"""Kind -> its name in the form."""


@dataclass(frozen=True, slots=True)
class PauseForm:
    """What the form says; `of` is the list or the domain, and `account` the account that an operator names."""

    kind: str = ""
    of: str = ""
    reason: str = ""
    account: str = ""


def add_pause(transaction: Transaction, account_id: int | None, form: PauseForm) -> None:
    """Pauses it for the account; without an id for the one that the form names, and if it names none, for all. Raises
    what `subject_of` and `pause` raise, and `invalid_string` for a form that says two things."""
    if form.kind not in KINDS:
        raise ServiceError("invalid_string", field="kind", detail="Say what to pause: an account, a list or a domain.")
    if form.kind == "account" and form.of:
        detail = f"Everything of the account, or only {form.of}? Leave the field empty, or choose a list or a domain."
        raise ServiceError("invalid_string", field="of", detail=detail)
    if form.kind != "account" and not form.of:
        raise ServiceError("not_empty", field="of", detail=f"Name the {form.kind}.")
    account: Account | None = None
    if account_id is not None:
        account = existing(transaction.get(Account, account_id), "account", account_id)
    elif form.account or form.kind != "domain":
        account = _named(transaction, form.account)
    of_list, of_domain = (form.of if form.kind == one else None for one in ("list", "domain"))
    pause(transaction, subject_of(transaction, account, list_=of_list, domain=of_domain), form.reason)


def end_pause(transaction: Transaction, services: Services, account_id: int | None, pause_id: int) -> None:
    """Goes on with what the account has paused, or any account for None. Raises `not_found`."""
    found = find_pause_by_id(transaction, account_id, pause_id)
    if found is None:
        raise ServiceError("not_found")
    resume(transaction, found)
    transaction.after_commit(lambda: services.wake_ups.wake(SENDS))


def _named(transaction: Transaction, name: str) -> Account:
    if not name:
        raise ServiceError("not_empty", field="account", detail="Name the account.")
    return find_account(transaction, name)
