"""The links and addresses by which a recipient or a mail server responds to a message, putting them into its bodies,
and the effect of a request to unsubscribe (docs/unsubscribing.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, exists, func, select
from sqlalchemy.orm import Session

from app.accounts.accounts import Brand
from app.addresses import ADDRESS_KIND_BY_TYPE, AddressKind, domain_of, normalize_address
from app.clock import now
from app.contacts.subscriptions import lock_subscriptions
from app.contacts.suppress import resubscribe, unsubscribe
from app.contacts.unsubscriber_entries import entries_of
from app.db.counters import count_in_group
from app.db.database import Transaction
from app.db.models import Account, Contact, List, Recipient, RecipientStep, Unsubscriber
from app.recipients.row import RecipientRow, add_steps, lock_recipient, step_row
from app.recipients.timeline import TimelineStep
from app.secret_keys import SecretKeys
from app.settings import Settings
from app.tracking.links import (
    InlineLink,
    LinkType,
    StoredLink,
    exempt_none,
    link_token,
    replace_in_html,
    replace_in_text,
)
from app.tracking.sender_hosts import NO_HOSTS, SenderHosts, settings_for
from app.tracking.tokens import (
    MAX_TOKEN_LENGTH,
    OPEN_PURPOSE,
    PREFERENCES_PURPOSE,
    SMS_RECEIPT_PURPOSE,
    UNSUBSCRIBE_PURPOSE,
    recipient_from_token,
    recipient_token,
    return_path,
    unsubscribe_address,
)

UNDO_PERIOD = timedelta(hours=1)
"""For how long what a link did can be taken back: later, the mail with the link may be with somebody else."""
MAX_TIME_APART = timedelta(minutes=1)
"""More than an entry and the step that was written with it are ever apart."""


@dataclass(frozen=True, slots=True)
class UnsubscribeRequest:
    """An address and the list to unsubscribe it from; without a list it is unsubscribed account-wide."""

    recipient_id: int
    account_id: int
    group_id: int
    list_id: int | None
    kind: AddressKind
    address: str
    uuid: str
    sender: str = ""
    """The name of the list, else that of the brand or of the account, for the page that confirms the request."""
    brand: Brand = Brand()
    tags: Sequence[str] | None = None
    """Those of the message."""

    @classmethod
    def of(cls, recipient: RecipientRow) -> UnsubscribeRequest:
        """The request of the recipient, for the address that its message was sent to."""
        kind = ADDRESS_KIND_BY_TYPE[recipient.type]
        address = recipient.email if kind == "email" else recipient.mobile
        where = recipient.account_id, recipient.group_id, recipient.list_id
        return cls(recipient.id, *where, kind, address or "", recipient.uuid)


def unsubscribe_link(settings: Settings, recipient_id: int) -> str:
    """The recipient's opt-out link."""
    return f"{settings.public_url}/u/{recipient_token(settings.secret_key, UNSUBSCRIBE_PURPOSE, recipient_id)}"


def find_unsubscribe_request(
    session: Session, secret_keys: SecretKeys, token: str, purpose: str = UNSUBSCRIBE_PURPOSE
) -> UnsubscribeRequest | None:
    """The request of a link for this purpose; None for an invalid link, or one whose recipient is deleted."""
    recipient_id = recipient_from_token(secret_keys, purpose, token)
    if recipient_id is None:
        return None
    row = session.execute(_select_recipient(recipient_id)).first()
    if row is None:
        return None
    kind = ADDRESS_KIND_BY_TYPE[row.type]
    address = row.email if kind == "email" else row.mobile
    if address is None:
        return None
    sender = row.list_name or row.brand_name or row.account_name
    brand = Brand(row.brand_name, row.brand_colour)
    return UnsubscribeRequest(
        row.id, row.account_id, row.group_id, row.list_id, kind, address, row.uuid, sender, brand, row.tags
    )


def _select_recipient(recipient_id: int) -> Any:
    """A recipient given by `contact_id` has no address of its own until its message is sent, so the contact's is
    used."""
    return (
        select(
            Recipient.id,
            Recipient.account_id,
            Recipient.group_id,
            List.id.label("list_id"),
            Recipient.type,
            Recipient.tags,
            Recipient.uuid,
            func.coalesce(Recipient.email, Contact.email).label("email"),
            func.coalesce(Recipient.mobile, Contact.mobile).label("mobile"),
            List.name.label("list_name"),
            Account.name.label("account_name"),
            Account.brand_name,
            Account.brand_colour,
        )
        .join(Account, Account.id == Recipient.account_id)
        .outerjoin(List, List.id == Recipient.list_id)
        .outerjoin(Contact, Contact.id == Recipient.contact_id)
        .where(Recipient.id == recipient_id)
    )


def apply_unsubscribe(
    transaction: Transaction, request: UnsubscribeRequest, *, block_reason: str | None = None
) -> None:
    """Unsubscribes the address, and blocks it if a reason is given. The group counts each recipient once, however often
    the link is used."""
    lock_for_request(transaction, request)
    unsubscribe(
        *(transaction, request.account_id, request.kind, request.address, request.list_id),
        block_reason=block_reason,
        uuid=request.uuid,
    )
    record_unsubscribed(transaction, request)


def lock_for_request(transaction: Transaction, request: UnsubscribeRequest) -> None:
    """Takes the locks that a change of subscriptions by the recipient needs."""
    lock_subscriptions(transaction, request.account_id)
    # Before the contacts are locked, in the same order as when writing an outcome that blocks the address.
    lock_recipient(transaction, request.recipient_id, account_id=request.account_id)


def record_unsubscribed(transaction: Transaction, request: UnsubscribeRequest) -> None:
    """Adds the step, unless it is the latest of those that the recipient's links make, and counts the recipient in its
    group at the first one."""
    latest_step = _steps(request).with_only_columns(RecipientStep.step).scalar_subquery()
    has_step = exists().where(*_link_steps(request, TimelineStep.UNSUBSCRIBED))
    latest, was_counted = transaction.execute(select(latest_step, has_step)).one()
    if latest == TimelineStep.UNSUBSCRIBED:
        return
    moment = _add_step(transaction, request, TimelineStep.UNSUBSCRIBED)
    if not was_counted:
        count_in_group(transaction, request.account_id, request.group_id, moment, request.tags, unsubscribed=1)


def record_resubscribed(transaction: Transaction, request: UnsubscribeRequest) -> None:
    """Adds the step. The count of the group stays: it is of those who have unsubscribed."""
    _add_step(transaction, request, TimelineStep.RESUBSCRIBED)


def may_be_undone(session: Session, request: UnsubscribeRequest) -> bool:
    """Whether the address is unsubscribed by what the link did within the last hour, and by nothing else: not by an
    entry that was there before, nor by one for the whole account beside that of the list."""
    address = normalize_address(request.kind, request.address)
    list_ids = {None, request.list_id}
    entries = select(Unsubscriber.list_id, Unsubscriber.creation_time).where(
        Unsubscriber.account_id == request.account_id, entries_of([address])
    )
    matching_entries = [row for row in session.execute(entries) if row.list_id in list_ids]
    if {row.list_id for row in matching_entries} != {request.list_id}:
        return False
    step = _steps(request).where(RecipientStep.step == TimelineStep.UNSUBSCRIBED)
    unsubscribed_time = session.scalar(step.with_only_columns(RecipientStep.time))
    made = min(row.creation_time for row in matching_entries)
    return unsubscribed_time is not None and unsubscribed_time - MAX_TIME_APART <= made and now() - UNDO_PERIOD <= made


def undo_unsubscribe(transaction: Transaction, request: UnsubscribeRequest) -> bool:
    """Subscribes the address again, if that `may_be_undone`; returns whether it was."""
    lock_for_request(transaction, request)
    if not may_be_undone(transaction, request):
        return False
    resubscribe(transaction, request.account_id, request.kind, request.address, request.list_id)
    record_resubscribed(transaction, request)
    return True


def _steps(request: UnsubscribeRequest) -> Any:
    """The newest step of the recipient that its links, or taking it back, have made."""
    link_steps = select(RecipientStep.id).where(
        *_link_steps(request, TimelineStep.UNSUBSCRIBED, TimelineStep.RESUBSCRIBED)
    )
    return link_steps.order_by(RecipientStep.id.desc()).limit(1)


def _link_steps(request: UnsubscribeRequest, *steps: TimelineStep) -> Sequence[ColumnElement[bool]]:
    return (
        RecipientStep.account_id == request.account_id,
        RecipientStep.recipient_id == request.recipient_id,
        RecipientStep.step.in_(steps),
    )


def _add_step(transaction: Transaction, request: UnsubscribeRequest, step: TimelineStep) -> datetime:
    moment = now()
    add_steps(transaction, [step_row(request.account_id, request.recipient_id, step, None, moment)])
    return moment


LinkIds = Mapping[tuple[str, str], int]
"""Type and URL of a stored link -> its id."""

NO_LINKS: LinkIds = {}

SERVICE_PATHS = ("u", "p", "o", "c")
"""First segments of this service's own links, which are not tracked: opting out is not a click."""

_PIXEL = re.compile(
    r'<img src="[^"\s]{1,2000}/o/[A-Za-z0-9_-]{1,64}\.gif" width="1" height="1" alt="" '
    r'style="border:0;height:1px;width:1px">'
)
_BODY_END = re.compile("</body", re.IGNORECASE)


class Instrumenter(NamedTuple):
    """Adds the pixel and the tracked links of this service."""

    public_url: str
    secret_key: str

    @classmethod
    def of(cls, settings: Settings) -> Instrumenter:
        return cls(settings.public_url, settings.secret_key)

    def with_pixel(self, html: str, recipient_id: int) -> str:
        """The HTML with an invisible image before the end of its body."""
        token = recipient_token(self.secret_key, OPEN_PURPOSE, recipient_id)
        pixel = (
            f'<img src="{self.public_url}/o/{token}.gif" width="1" height="1" alt="" '
            'style="border:0;height:1px;width:1px">'
        )
        end = max((match.start() for match in _BODY_END.finditer(html)), default=len(html))
        return html[:end] + pixel + html[end:]

    @staticmethod
    def without_pixel(html: str) -> str:
        """The HTML without that image, to be looked at: nothing in it is asked for."""
        return _PIXEL.sub("", html)

    def with_links(
        self,
        body: str,
        link_type: LinkType,
        recipient_id: int,
        links: LinkIds,
        is_exempt: Callable[[str], bool] = exempt_none,
    ) -> str:
        """The body with its links replaced by tracked ones; exempt links stay."""

        def replace(url: str) -> str | None:
            link_id = links.get((link_type, url))
            has_token = link_id is not None or len(url) <= MAX_TOKEN_LENGTH
            if not has_token or self._is_own(url) or is_exempt(url):
                return None
            stored = None if link_id is None else StoredLink(recipient_id, link_id)
            token = link_token(self.secret_key, stored or InlineLink(recipient_id, link_type, url))
            return token and f"{self.public_url}/c/{token}"

        return replace_in_html(body, replace) if link_type == "html_email" else replace_in_text(body, replace)

    def _is_own(self, url: str) -> bool:
        return url.startswith(self.public_url) and url.startswith(
            tuple(f"{self.public_url}/{page}/" for page in SERVICE_PATHS)
        )


COPY_PLACEHOLDER = "copy"
"""Replaces the token in a blind copy. It is not signed, so it identifies no recipient."""
DRY_RUN_PLACEHOLDER = "dry-run-00000000000"
"""Replaces the token in a message that is only shown, and is as long as one. It is not signed either."""


class FeedbackChannels(NamedTuple):
    """Links and addresses of one recipient's message, and its instrumentation."""

    unsubscribe_link: str
    unsubscribe_address: str | None
    """The address by which a mail program unsubscribes; None without BOUNCE_DOMAIN, where this service receives
    mail."""
    return_path: str
    """The envelope sender, to which mail servers send reports."""
    instrumenter: Instrumenter
    placeholder: str | None = None
    """Replaces the tokens of links where they must not work."""

    def preferences_link(self, recipient_id: int) -> str:
        """The recipient's link to choose among lists. It is signed only where a message has it."""
        public_url, secret_key = self.instrumenter
        token = self.placeholder or recipient_token(secret_key, PREFERENCES_PURPOSE, recipient_id)
        return f"{public_url}/p/{token}"

    def for_copy(self) -> FeedbackChannels:
        """The channels of the blind copy: its links to unsubscribe and to choose are invalid, and change nothing."""
        return self._replace(
            unsubscribe_link=f"{self.instrumenter.public_url}/u/{COPY_PLACEHOLDER}",
            unsubscribe_address=None,
            placeholder=COPY_PLACEHOLDER,
        )

    def for_dry_run(self) -> FeedbackChannels:
        """The channels of a message that is only shown: like those of a blind copy, nobody can unsubscribe by them. Its
        pixel and tracked links are as long as others, but nobody's: their signatures are none."""
        address, public_url = self.unsubscribe_address, self.instrumenter.public_url
        return self._replace(
            unsubscribe_link=f"{public_url}/u/{DRY_RUN_PLACEHOLDER}",
            unsubscribe_address=address and f"unsubscribe+{DRY_RUN_PLACEHOLDER}@{domain_of(address)}",
            instrumenter=Instrumenter(public_url, DRY_RUN_PLACEHOLDER),
            placeholder=DRY_RUN_PLACEHOLDER,
        )


class SenderChannels:
    """The channels of the recipients of one sender, whose domain may have hosts of its own. What they have in common is
    made once."""

    def __init__(self, settings: Settings, from_address: str, hosts: SenderHosts = NO_HOSTS) -> None:
        self._settings = settings_for(settings, hosts)
        self._from_address = from_address
        self._instrumenter = Instrumenter.of(self._settings)

    def for_recipient(self, recipient_id: int) -> FeedbackChannels:
        """The channels of one recipient's message."""
        return FeedbackChannels(
            unsubscribe_link(self._settings, recipient_id),
            unsubscribe_address(self._settings, recipient_id),
            return_path(self._settings, recipient_id, self._from_address),
            self._instrumenter,
        )


def receipt_url(settings: Settings, recipient_id: int) -> str:
    """The URL at which an SMS gateway reports the receipt of a recipient's text message."""
    token = recipient_token(settings.secret_key, SMS_RECEIPT_PURPOSE, recipient_id)
    return f"{settings.public_url}/inbound/kannel/dlr/{token}"
