"""The sender of a send, and how recipients of a text message can opt out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from unicodedata import category

from sqlalchemy import case, select
from sqlalchemy.orm import Session

from app.addresses import domain_of, is_valid_email
from app.content.conditionals import unconditional_text
from app.db.models import Domain, SmsSender
from app.distribution import COMMAND_LINE
from app.ids import shown_id
from app.sends.accept.references import SendCheck

VIRTUAL_NUMBER = "virtual_number"


@dataclass(frozen=True, slots=True)
class Sender:
    """`name` is for emails only; a `virtual` number can be replied to."""

    address: str
    name: str | None = None
    virtual: bool = False


class SmsSenderRow(NamedTuple):
    """An approved sender; one with a list sends to that list alone."""

    address: str
    kind: str
    list_id: int | None


SMS_SENDERS = select(*(getattr(SmsSender, name) for name in SmsSenderRow._fields))


def find_email_sender(check: SendCheck) -> Sender | None:
    """The sender in the request, else that of the message, else the default sender of the account."""
    sender = _requested_or_default(check)
    if sender is None:
        missing = "neither the request nor the message has one, and the account has no default sender"
        detail = f"from_address: {missing}. Give an address of a configured domain."
        check.errors.add("invalid_from_address", field="from_address", detail=detail)
    elif not is_valid_email(sender.address):
        detail = f"from_address: {sender.address} is not an email address."
        check.errors.add("invalid_from_address", field="from_address", detail=detail)
        sender = None
    _check_domains(check, sender)
    return sender


def _requested_or_default(check: SendCheck) -> Sender | None:
    """The default name is used with the default address only."""
    content, account = check.content, check.references.account
    if content.from_address is not None:
        return Sender(content.from_address, content.from_name)
    if account.default_from_address:
        return Sender(account.default_from_address, content.from_name or account.default_from_name)
    return None


def _check_domains(check: SendCheck, sender: Sender | None) -> None:
    """The domains themselves must be configured, not just a parent (docs/sending.md#senders)."""
    addresses = {"from_address": sender and sender.address, "bcc_address": check.draft.bcc_address}
    domains = {field: domain_of(address) for field, address in addresses.items() if address}
    # The domain of the default sender is not in the request, so it has not been looked up yet.
    configured_domains = check.references.configured
    configured = {**configured_domains, **_verified_domains(check, set(domains.values()) - configured_domains.keys())}
    unconfigured = {domain for domain in domains.values() if not configured[domain]}
    added = _added_domains(check, unconfigured)
    for field, domain in domains.items():
        if domain in unconfigured:
            check.errors.add(
                f"invalid_{field}_domain", field=field, detail=_unconfigured_detail(field, domain, domain in added)
            )


def _unconfigured_detail(field: str, domain: str, is_added: bool) -> str:
    if is_added:
        return (
            f"{field}: the domain {domain} is added to the account, but not verified yet: its DNS records have to be "
            f"published, and looked up with `{COMMAND_LINE} domains verify {domain}` or in the console, under Domains."
        )
    return (
        f"{field}: the domain {domain} is not configured in the account. Send from one that is, or ask the operator to "
        f"add it, with `{COMMAND_LINE} domains add {domain}` or in the console, under Domains."
    )


def _added_domains(check: SendCheck, names: set[str]) -> set[str]:
    """The names that are domains of the account, verified or not."""
    if not names:
        return set()
    statement = select(Domain.name).where(Domain.account_id == check.account_id, Domain.name.in_(sorted(names)))
    return set(check.rows(statement).scalars())


def _verified_domains(check: SendCheck, names: set[str]) -> dict[str, bool]:
    if not names:
        return {}
    statement = select(Domain.name).where(
        Domain.account_id == check.account_id, Domain.name.in_(sorted(names)), Domain.verified_time.is_not(None)
    )
    verified = set(check.rows(statement).scalars())
    return {name: name in verified for name in names}


def find_sms_sender(check: SendCheck) -> Sender | None:
    """The sender in the request, else that of the message, the number of the list, or the account's only sender."""
    row = _find_approved(check)
    if row is None:
        check.errors.add(
            "invalid_from_address", field="from_address", detail=_missing_detail(check.content.from_address)
        )
        return None
    if row.list_id is not None and row.list_id != check.draft.list_id:
        list_id = shown_id(row.list_id)
        detail = f"from_address: {row.address} is assigned to the list {list_id} and cannot send to other lists."
        check.errors.add("from_address_invalid_list", field="from_address", detail=detail)
    return Sender(row.address, virtual=row.kind == VIRTUAL_NUMBER)


def _missing_detail(address: str | None) -> str:
    if address is not None:
        approving = f"or ask the operator to approve it, with `{COMMAND_LINE} senders create`"
        return f"from_address: {address} is not an approved sender of this account. Send from one that is, {approving}."
    missing = "the list has no number of its own, and the account does not have exactly one sender"
    return f"from_address is required: {missing}. Give an approved one."


def _find_approved(check: SendCheck) -> SmsSenderRow | None:
    """The approved sender with the requested address, else the default."""
    address = check.content.from_address
    if address is None:
        return default_sms_sender(check.session, check.account_id, check.draft.list_id)
    return approved_sms_senders(check.session, check.account_id, [address]).get(address)


def approved_sms_senders(session: Session, account_id: int, addresses: Collection[str]) -> dict[str, SmsSenderRow]:
    """The addresses that are approved senders of the account."""
    named = SMS_SENDERS.where(SmsSender.account_id == account_id, SmsSender.address.in_(sorted(addresses)))
    return {row.address: SmsSenderRow(*row) for row in session.connection().execute(named)}


def default_sms_sender(session: Session, account_id: int, list_id: int | None) -> SmsSenderRow | None:
    """The number of the list, else the account's only sender."""
    list_sender_first = (
        SMS_SENDERS.where(SmsSender.account_id == account_id)
        .order_by(case((SmsSender.list_id == list_id, 0), else_=1), SmsSender.id)
        .limit(2)
    )
    rows = [SmsSenderRow(*row) for row in session.connection().execute(list_sender_first)]
    assigned_to_list = bool(rows) and list_id is not None and rows[0].list_id == list_id
    return rows[0] if assigned_to_list or len(rows) == 1 else None


DEFAULT_STOP_WORD = "STOP"
"""Valid in every list and without a list (docs/sending.md#opting-out-of-sms)."""


def has_stop_word(text: str, words: Iterable[str] = ()) -> bool:
    """Whether the text contains STOP or one of the words, as a whole word and in any case
    (docs/sending.md#opting-out-of-sms)."""
    return any(_has_word(text, word.strip()) for word in (DEFAULT_STOP_WORD, *words))


def _has_word(text: str, word: str) -> bool:
    """Whether the word stands in the text, in any case, with nothing before and after it that belongs to a word:
    letters, digits, marks such as accents, and underscores."""
    matches = re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE)
    return any(
        not _is_mark(text[at.start() - 1 : at.start()]) and not _is_mark(text[at.end() : at.end() + 1])
        for at in matches
    )


def _is_mark(character: str) -> bool:
    return character != "" and category(character).startswith("M")


def check_opt_out(check: SendCheck, sender: Sender | None, stop_words: Sequence[str]) -> None:
    """Collects the errors of `unsubscribe_type` and a missing stop word. `sender` is None if it was not found."""
    if sender is not None:
        _check_type(check, sender)
    text, by_word = check.content.body_text, check.draft.unsubscribe_type in (None, "word")
    # Recipients who do not see the conditional need the stop word too (docs/sending.md#opting-out-of-sms).
    if text and text.strip() and by_word and not has_stop_word(unconditional_text(text), stop_words):
        accepted = ", ".join(dict.fromkeys((DEFAULT_STOP_WORD, *stop_words)))
        detail = (
            f"body_text must contain one of these as a whole word, outside of conditionals: {accepted}. A text that "
            "offers a link, or no way out, says so with unsubscribe_type: link or none."
        )
        check.errors.add("missing_stop_words", field="body_text", detail=detail)


def _check_type(check: SendCheck, sender: Sender) -> None:
    """`word` and `link` need a virtual number, whose replies this service receives; `none` goes with any sender."""
    unsubscribe_type = check.draft.unsubscribe_type
    if unsubscribe_type is None and sender.virtual and check.draft.message_id is None:
        detail = "unsubscribe_type is required if the sender is a virtual number: none, word or link."
        check.errors.add("required", field="unsubscribe_type", detail=detail)
    if unsubscribe_type in ("word", "link") and not sender.virtual:
        check.errors.add("unsubscribe_type_sender_mismatch", field="unsubscribe_type")
