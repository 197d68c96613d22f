"""Accepts a submitted mail in one transaction, and once: what was accepted before is answered alike
(docs/smtp-submission.md#sent-again)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import orjson
from sqlalchemy import delete, select

from app.addresses import normalize_address
from app.clock import now
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import IdempotencyRecord
from app.errors import ServiceError
from app.sends.accept.accept import SendRequest, accept
from app.sends.accept.content import effective_content
from app.sends.accept.draft import DEFAULTS, AttachmentDraft, RecipientDraft, SendDraft
from app.services import Services
from app.submission.clients import Submitter
from app.submission.mail import SubmittedMail

ATTEMPTS = 3
ACCEPTED = 250
LIST_FIELD = "X-TMS-List"


class _AcceptedMeanwhile(Exception):
    """Another session has accepted the mail for one of the recipients since they were looked up."""


def submit(
    services: Services, submitter: Submitter, mail: SubmittedMail, to: Sequence[str], request_id: str
) -> list[str]:
    """Accepts the mail for these addresses, and returns the uuid of each.

    Raises `ServiceError` with every violation, in which case nothing is written.
    """
    draft = draft_of(submitter, mail, to)
    request = SendRequest(submitter.principal.account_id, request_id, draft, None, effective_content(draft, None))
    keys = _record_keys(submitter, mail, draft)

    def work(transaction: Transaction) -> list[str]:
        return _accept_once(transaction, services, request, keys)

    for _ in range(ATTEMPTS):
        try:
            return services.database.transact(work)
        except _AcceptedMeanwhile:
            continue
    raise ServiceError("service_unavailable")


def draft_of(submitter: Submitter, mail: SubmittedMail, to: Sequence[str]) -> SendDraft:
    """The send that a mail is. Raises `ServiceError` (`required`) if it has no list."""
    options = {"list_id": submitter.list_id, "group_name": submitter.principal.key_name, **mail.header.options}
    if options["list_id"] is None:
        detail = f"The mail has no list. Name one with the field {LIST_FIELD}, or give the key a list of its own."
        raise ServiceError("required", field="list_id", detail=detail)
    header = mail.header
    values: dict[str, Any] = {
        **DEFAULTS,
        "type": "email",
        "subject": header.subject,
        "from_name": header.from_name,
        "from_address": header.from_address,
        "reply_to": header.reply_to,
        "body_html": mail.html,
        "body_text": mail.text,
        "recipients": tuple(RecipientDraft(None, address, None, {}) for address in _unique(to)),
        "attachments": mail.attachments,
        "headers": header.fields or None,
        "literal": True,
        **options,
    }
    return SendDraft(**values)


def _unique(to: Sequence[str]) -> list[str]:
    """The addresses without those that are named again."""
    by_key: dict[str, str] = {}
    for address in to:
        by_key.setdefault(normalize_address("email", address).key, address)
    return list(by_key.values())


# Accepted once: a record of each recipient, in the transaction that accepts the mail for it.


def _record_keys(submitter: Submitter, mail: SubmittedMail, draft: SendDraft) -> list[str]:
    """The key of the record of each recipient; none for a mail without a Message-ID. A client of the API cannot name
    such a key, because it has spaces."""
    if not mail.header.message_id:
        return []
    digest = _content_digest(mail.header.message_id, draft)
    return [
        f"smtp {submitter.principal.key_id} "
        + hashlib.sha256(f"{digest} {normalize_address('email', each.email or '').key}".encode()).hexdigest()
        for each in draft.recipients
    ]


def _content_digest(message_id: str, draft: SendDraft) -> str:
    """A hash of all that is sent. Fields that mail servers add on the way are not part of it."""
    values = {field.name: getattr(draft, field.name) for field in fields(SendDraft)}
    content = {name: value for name, value in values.items() if name not in ("recipients", "attachments")}
    digest = hashlib.sha256(orjson.dumps([message_id, content], default=sorted, option=orjson.OPT_SORT_KEYS))
    for attachment in draft.attachments:
        digest.update(orjson.dumps(_attachment_facts(attachment)))
        digest.update(attachment.content)
    return digest.hexdigest()


def _attachment_facts(attachment: AttachmentDraft) -> list[object]:
    return [attachment.name, attachment.mime_type, attachment.content_id, len(attachment.content)]


def _accept_once(transaction: Transaction, services: Services, request: SendRequest, keys: Sequence[str]) -> list[str]:
    """Accepts the mail for the recipients without a record. Raises `_AcceptedMeanwhile`."""
    if not keys:
        return list(accept(transaction, services, request).uuids)
    uuids = _accepted(transaction, services, request.account_id, keys)
    missing = [key for key in keys if key not in uuids]
    if missing:
        recipients = dict(zip(keys, request.draft.recipients, strict=True))
        draft = replace(request.draft, recipients=tuple(recipients[key] for key in missing))
        accepted = accept(transaction, services, replace(request, draft=draft))
        _record(transaction, request.account_id, dict(zip(missing, accepted.uuids, strict=True)))
        uuids |= zip(missing, accepted.uuids, strict=True)
    return [uuids[key] for key in keys]


def _accepted(transaction: Transaction, services: Services, account_id: int, keys: Sequence[str]) -> dict[str, str]:
    """The uuids of the recipients with a record. Records that are too old, and not deleted yet, are."""
    is_ours = IdempotencyRecord.account_id == account_id, in_json(IdempotencyRecord.key, keys)
    columns = IdempotencyRecord.key, IdempotencyRecord.body, IdempotencyRecord.creation_time
    rows = transaction.connection().execute(select(*columns).where(*is_ours)).all()
    retention = services.settings.retain_idempotency
    begin = None if retention is None else now() - retention
    fresh = {row.key: row.body or "" for row in rows if begin is None or row.creation_time >= begin}
    if len(fresh) < len(rows) and begin is not None:
        transaction.connection().execute(
            delete(IdempotencyRecord).where(*is_ours, IdempotencyRecord.creation_time < begin)
        )
    return fresh


def _record(transaction: Transaction, account_id: int, uuids: dict[str, str]) -> None:
    """Raises `_AcceptedMeanwhile` if there is a record by now: another session's commit was awaited."""
    shared = {"account_id": account_id, "fingerprint": "", "creation_time": now(), "status": ACCEPTED}
    rows = [{"key": key, "body": uuid} for key, uuid in sorted(uuids.items())]
    if len(insert_new_rows(transaction, IdempotencyRecord, rows, shared, returning=("key",))) < len(rows):
        raise _AcceptedMeanwhile
