"""A recipient that a worker sends to, and what its message is composed from: the content and the domain of its send."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from app.addresses import domain_of
from app.clock import zone_of_account
from app.contacts.row import ContactRow, ContactValues
from app.content.plain_text import plain_text
from app.content.render import RenderingTooLong, Template, cached_template, size_of
from app.content.values import MergedValues, WildcardValues, recipient_values
from app.content.wildcards import AttachmentReference, Wildcard
from app.db.queue import RECIPIENT_COLUMNS
from app.ids import shown_id
from app.recipients.states import FailReason, MissingRequirement
from app.secret_keys import SecretKeys, decrypt
from app.sends.delivery.sizes import (
    MAX_SUBJECT_BYTES,
    EmptyMessage,
    MessageSizes,
    MessageTooLarge,
    RenderQuota,
    TemplateSize,
)
from app.sends.secret_values import SecretValues
from app.settings import Settings
from app.tracking.feedback_channels import NO_LINKS, FeedbackChannels, LinkIds
from app.tracking.links import LinkType, exempt_none, has_secret
from app.tracking.sender_hosts import NO_HOSTS, SenderHosts
from app.transports.base import DeliveryResult, OutboundEmail, OutboundSms
from app.transports.email import dkim, mime


@dataclass(frozen=True, slots=True)
class SendContent:
    """A send as it was accepted."""

    id: int
    request_id: str
    begin_time: datetime
    """Its `send_at`, or when it was accepted: its Date header, and the begin of its retry period."""
    type: str
    list_id: int | None
    unsubscribe_type: str | None
    subject: str | None
    from_name: str | None
    from_address: str
    reply_to: str | None
    bcc_address: str | None
    priority: str
    transport: str | None
    """The name of the transport that the request names."""
    body_html: str | None
    body_text: str | None
    include_unsubscribed: bool
    recipient_data_html_encoded: bool
    track_opens: bool
    track_clicks: bool
    track_secrets: bool
    literal: bool
    """Whether subject and bodies have no wildcards."""
    headers: Mapping[str, str] | None
    """Header fields that the request adds to the mails, or that the author of a submitted mail has written."""
    time_zone: str
    """The account's time zone (docs/personalisation.md#time-zone)."""
    owner_confirmed: bool
    """Whether the account's owner has confirmed the address, as sending requires."""
    is_test: bool
    """Whether its account is a test account: its messages are captured instead of sent."""
    has_digests: bool
    """Whether its account keeps suppressions under digests (docs/privacy.md#what-is-kept)."""
    hidden_attributes: int | None
    """Attributes of contacts that fields of the list hide: a sum of `wildcard_values.HIDEABLE`."""
    relay_refuses: bool
    """Whether a transport refuses everything of its account."""
    routing_version: str | None
    """The version of the routes when the send was loaded; None while there are none."""


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A DKIM key as the database stores it; the private key is encrypted."""

    id: int
    domain: str
    selector: str
    private_key: str = field(repr=False)


@dataclass(slots=True)
class SendingDomain:
    """What the domain of a sender has: its active DKIM keys, and its hosts; and what it lacks, or the domain of the
    blind copies. Threads share it."""

    keys: Sequence[StoredKey] = ()
    hosts: SenderHosts = NO_HOSTS
    lacking: MissingRequirement | None = None
    _signers: Sequence[dkim.Signer] = field(default=(), init=False, compare=False)

    def signed(self, email: OutboundEmail, settings: Settings, moment: datetime) -> OutboundEmail:
        """The mail with a signature of each key. `moment` is the time of its Date header. What
        SECRET_KEY and its fallbacks are is read once, for the first mail.

        Raises `SecretUnreadable` for a key that was stored under another SECRET_KEY: mail that should be signed is not
        sent unsigned.
        """
        if not self.keys:
            return email
        if not self._signers:
            secret_keys = settings.secret_keys
            self._signers = [_signer(key, secret_keys) for key in self.keys]
        return email._replace(content=dkim.sign(email.content, self._signers, moment))


NO_DOMAIN = SendingDomain()


@lru_cache(maxsize=1024)
def _signer(key: StoredKey, secret_keys: SecretKeys) -> dkim.Signer:
    return dkim.open_signer(key.domain, key.selector, decrypt(secret_keys, key.private_key))


Render = Callable[[WildcardValues, Mapping[str, str], int], str]
UnfilledByPart = Mapping[str, tuple[Wildcard | AttachmentReference, ...]]
"""Attribute of the send -> what its rendering outputs that has no value."""


class RenderedContent(NamedTuple):
    """Subject and bodies of one message, before tracking is added."""

    subject: str
    html: str | None
    text: str | None

    @property
    def size(self) -> int:
        """Bytes of subject and bodies."""
        return sum(map(size_of, filter(None, self)))


def render_part(name: str, limit: int, render: Render, values: WildcardValues, names: Mapping[str, str]) -> str:
    """The text of one part for one recipient. Raises `MessageTooLarge` for more than `limit` bytes."""
    try:
        return render(values, names, limit)
    except RenderingTooLong:
        raise MessageTooLarge(f"{name} has more than {limit} bytes once it is filled in") from None


PREFERENCES_LINK = "preferences_link"
"""The wildcard of the link on which a recipient chooses among lists (docs/preferences.md)."""
MAX_NOTE = 2000


@dataclass(slots=True)
class RouteProgress:
    """The names of the transports that may still be tried, and what became of the message at those before."""

    upcoming: list[str]
    passed: list[str] = field(default_factory=list)

    def note(self, attempt_note: str | None) -> str | None:
        """The operator's note on the attempt: which transports did not take the message, and why."""
        notes = [*self.passed, *([attempt_note] if attempt_note else [])]
        return "; ".join(notes)[:MAX_NOTE] if notes else None


@dataclass(slots=True, eq=False, repr=False)
class ClaimedRecipient:
    """A recipient from its claim to the result of the attempt: one object, which the stations of delivery complete in
    this order (docs/architecture.md#a-send).

    What a station has yet to add cannot be read before: the attribute is not there. One thread at a time has the
    object. There is one per message, so it is neither frozen nor given names where it is claimed.
    """

    # The claim: the columns `RECIPIENT_COLUMNS` and `ENTRY_COLUMNS` of app/db/queue.py, in their order.
    id: int
    account_id: int
    uuid: str
    send_id: int
    list_id: int | None
    contact_id: int | None
    type: str
    email: str | None
    mobile: str | None
    values: Mapping[str, Any]
    reason: str | None
    attempts: int
    due_time: datetime
    priority: str = "normal"

    lease_end: float = field(init=False)
    """When the worker's lease ends, by `uptime`: counted from before the statement that wrote it began."""

    # Loading the batch (app/sends/delivery/load.py).
    secrets: SecretValues | None = None
    """The secret ones among the values, once they are known."""
    compiled: CompiledMessage = field(init=False)
    contact: ContactRow | None = field(init=False)
    address: str = field(init=False)
    """The address of the request or of the contact; empty if there is neither."""
    attachments: Sequence[mime.EncodedAttachment] = field(init=False)
    """The recipient's own attachments."""
    skip: FailReason | None = field(init=False)
    """Why it is not sent to; building the message may find a reason, too."""
    detail: str | None = field(init=False)
    """What that reason needs to be understood."""
    is_large: bool = field(init=False)
    """Whether building the message takes long."""
    quota: RenderQuota | None = field(init=False)
    """The quota that the message counts against, if its send may reach the limit."""

    # The dispatcher.
    route: RouteProgress | None = field(init=False)
    """How far it has come on its route; None if only the default transport is on it."""
    queued_at: float = field(init=False)
    """When the dispatcher took it, by the monotonic clock."""

    # Building the message (app/sends/delivery/message.py), in the thread that sends it or ahead.
    is_built: bool = field(init=False)
    """Whether there is a message, or it is known that there is none."""
    has_message: bool = field(init=False)
    fault: DeliveryResult | None = field(init=False)
    """The deferral, if there is no message because of a fault of the service."""
    message: OutboundEmail | OutboundSms = field(init=False)
    copy: OutboundEmail | None = field(init=False)
    """The blind copy, which is sent once the message is accepted."""
    rendered: RenderedContent = field(init=False)
    """What was rendered for the message."""
    rendered_bytes: int = field(init=False)
    """How many bytes were rendered, those of the copy included."""

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any], secret_values: Mapping[str, str]) -> ClaimedRecipient:
        """A recipient that no worker has claimed, to show what its message is. Missing columns of its row are null;
        `secret_values` are what stands in place of its secret values."""
        recipient_columns: dict[str, Any] = {name: columns.get(name) for name in RECIPIENT_COLUMNS}
        claimed = cls(**recipient_columns, attempts=columns["attempts"], due_time=columns["creation_time"])
        if secret_values:
            claimed.fill_in(SecretValues(secret_values))
        return claimed

    def fill_in(self, secrets: SecretValues) -> None:
        """Adds the secret values, which its row does not have."""
        self.values, self.secrets = {**self.values, **secrets.values}, secrets

    def masked(self) -> ClaimedRecipient:
        """The recipient with a mask in place of each secret value; the same object if it has none."""
        if self.secrets is None:
            return self
        masked = copy(self)
        masked.values = {**self.values, **self.secrets.masked}
        return masked

    def give_up_message(
        self, skip: FailReason | None = None, detail: str | None = None, fault: DeliveryResult | None = None
    ) -> None:
        """Notes why there is no message: it must not be sent, or a fault defers it."""
        self.skip, self.detail, self.fault = skip, detail, fault
        self.has_message, self.copy, self.is_built = False, None, True


class CompiledMessage:
    """The part of the messages of a send that does not vary by recipient."""

    def __init__(
        self,
        send: SendContent,
        attachments: Sequence[mime.EncodedAttachment],
        domain: SendingDomain = NO_DOMAIN,
        links: LinkIds = NO_LINKS,
    ) -> None:
        self.send = send
        self._links = links
        self.domain = domain
        """The domain of its sender."""
        self._attachments = attachments
        self._zone = zone_of_account(send.time_zone)
        self.sizes = MessageSizes(
            TemplateSize.of(send.subject),
            TemplateSize.of(send.body_html),
            TemplateSize.of(send.body_text),
            text_from_html=send.body_html is not None and send.body_text is None,
        )
        self._last_text = "", ""
        self._is_exempt = exempt_none if send.track_secrets else has_secret

    @cached_property
    def _message_id_domain(self) -> str:
        return domain_of(self.send.from_address)

    # Compiled by the thread that needs it first, because other threads wait for the one that loads a batch.

    @cached_property
    def _subject(self) -> Template:
        return self._template(self.send.subject or "")

    @cached_property
    def _html(self) -> Template | None:
        return self._template(self.send.body_html) if self.send.body_html is not None else None

    @cached_property
    def _text(self) -> Template | None:
        return self._template(self.send.body_text) if self.send.body_text is not None else None

    @cached_property
    def _has_preferences_link(self) -> bool:
        """Whether a text names the wildcard: signing the link of each recipient would cost all other messages."""
        texts = self.send.subject, self.send.body_html, self.send.body_text
        return any(text is not None and PREFERENCES_LINK in text.lower() for text in texts)

    def _template(self, source: str) -> Template:
        return Template.literal(source) if self.send.literal else cached_template(source, self._zone)

    @cached_property
    def _author_headers(self) -> mime.AuthorHeaders:
        return mime.author_headers(self.send.headers) if self.send.headers else mime.NO_HEADERS

    def render(self, recipient: ClaimedRecipient, channels: FeedbackChannels, limit: int) -> RenderedContent:
        """Subject and bodies for one recipient, each body of at most `limit` bytes.

        Raises `MessageTooLarge`.
        """
        values, names = self._values(recipient, channels), self._attachment_names(recipient)
        subject = render_part("subject", MAX_SUBJECT_BYTES, self._subject.header, values, names)
        html = render_part("body_html", limit, self._html.html, values, names) if self._html else None
        text = render_part("body_text", limit, self._text.text, values, names) if self._text else None
        if text is None and html is not None:
            text = self._text_of_html(html) or None
            if text is not None and size_of(text) > limit:
                raise MessageTooLarge(f"the text generated from body_html has more than {limit} bytes")
        return RenderedContent(subject, html, text)

    def unfilled(self, recipient: ClaimedRecipient, channels: FeedbackChannels, limit: int) -> UnfilledByPart:
        """Attribute -> what has no value in it for this recipient, whose content was rendered within the limits."""
        values, names = self._values(recipient, channels), self._attachment_names(recipient)
        parts = {"subject": self._subject, "body_html": self._html, "body_text": self._text}
        return {
            part: template.unfilled(values, names, html=part == "body_html", max_bytes=max(limit, MAX_SUBJECT_BYTES))
            for part, template in parts.items()
            if template
        }

    def _attachment_names(self, recipient: ClaimedRecipient) -> dict[str, str]:
        """Name -> Content-ID of the attachments that the recipient gets."""
        return {file.name: file.content_id or "" for file in (*self._attachments, *recipient.attachments)}

    def build_email(
        self, recipient: ClaimedRecipient, channels: FeedbackChannels, rendered: RenderedContent, limit: int
    ) -> OutboundEmail:
        """The mail for one recipient. Every attempt has the same Message-ID and the same date.

        Raises `MessageTooLarge` for a mail of more than `limit` bytes.
        """
        if self.send.track_clicks or self.send.track_opens:
            rendered = rendered._replace(
                html=rendered.html and self._with_html_tracking(rendered.html, recipient, channels),
                text=rendered.text and self._with_links(rendered.text, "text_email", recipient, channels),
            )
        content = self._encode(recipient, rendered, limit, self._list_unsubscribe(channels))
        return OutboundEmail(recipient.uuid, channels.return_path, recipient.address, content)

    def build_copy(
        self, recipient: ClaimedRecipient, channels: FeedbackChannels, rendered: RenderedContent, limit: int
    ) -> OutboundEmail:
        """The blind copy of one recipient's mail: it has the same text, but nothing in it acts for the recipient
        (docs/sending.md#blind-copies). It is rendered with `FeedbackChannels.for_copy`."""
        content = self._encode(recipient, rendered, limit, None)
        to, uuid = self.send.bcc_address or "", f"{recipient.uuid}-bcc"
        return OutboundEmail(uuid, channels.return_path, to, content)

    def _encode(
        self,
        recipient: ClaimedRecipient,
        rendered: RenderedContent,
        limit: int,
        unsubscribe: tuple[str, str | None] | None,
    ) -> bytes:
        send, html, text = self.send, rendered.html, rendered.text
        self.check_attachments(recipient, limit, bodies=len(html or "") + len(text or ""))
        content = mime.build(
            from_name=send.from_name,
            from_address=send.from_address,
            to=recipient.address,
            reply_to=send.reply_to,
            subject=rendered.subject,
            html=html,
            text=text,
            attachments=[*self._attachments, *recipient.attachments],
            message_id=f"{recipient.uuid}@{self._message_id_domain}",
            date=send.begin_time,
            unsubscribe=unsubscribe,
            author_headers=self._author_headers,
        )
        if len(content) > limit:
            raise _mail_too_large(limit)
        return content

    def _list_unsubscribe(self, channels: FeedbackChannels) -> tuple[str, str | None] | None:
        """The List-Unsubscribe header of mails to a list. A send that includes unsubscribed recipients has none:
        unsubscribing would not keep its next mail away."""
        if self.send.list_id is None or self.send.include_unsubscribed:
            return None
        return channels.unsubscribe_link, channels.unsubscribe_address

    def check_attachments(self, recipient: ClaimedRecipient, limit: int, *, bodies: int = 0) -> None:
        """Raises `MessageTooLarge` if the attachments, with bodies of that size, are too large for a mail; called
        before the rest of the work."""
        if bodies + sum(len(file.body) for file in (*self._attachments, *recipient.attachments)) > limit:
            raise _mail_too_large(limit)

    def _text_of_html(self, html: str) -> str:
        """The text of the HTML; the last one is kept, because HTML without wildcards is the same for all recipients."""
        last_html, text = self._last_text
        if last_html != html:
            text = plain_text(html)
            self._last_text = html, text
        return text

    def _with_html_tracking(self, html: str, recipient: ClaimedRecipient, channels: FeedbackChannels) -> str:
        """The body with tracked links and the pixel, as far as the send has them."""
        html = self._with_links(html, "html_email", recipient, channels)
        return channels.instrumenter.with_pixel(html, recipient.id) if self.send.track_opens else html

    def _with_links(self, body: str, kind: LinkType, recipient: ClaimedRecipient, channels: FeedbackChannels) -> str:
        """The body with tracked links, if the send has them. A link with a secret value is never tracked."""
        if not self.send.track_clicks:
            return body
        secrets = recipient.secrets
        is_exempt = secrets.exempting(self._is_exempt) if secrets else self._is_exempt
        return channels.instrumenter.with_links(body, kind, recipient.id, self._links, is_exempt)

    def build_sms(
        self, recipient: ClaimedRecipient, channels: FeedbackChannels, rendered: RenderedContent, receipt_url: str
    ) -> OutboundSms:
        """The text message for one recipient, with an opt-out link if the send has one
        (docs/sending.md#opting-out-of-sms).

        Raises `EmptyMessage` if nothing but that link would be left (docs/delivery.md#skipped-recipients).
        """
        text = rendered.text or ""
        if not text.strip():
            raise EmptyMessage("the text is empty once it is filled in")
        if self.send.unsubscribe_type == "link":
            text = f"{text}\nOpt out: {channels.unsubscribe_link}"
        return OutboundSms(recipient.uuid, self.send.from_address, recipient.address, text, receipt_url)

    def _values(self, recipient: ClaimedRecipient, channels: FeedbackChannels) -> WildcardValues:
        """The recipient's own, then the contact's (docs/personalisation.md#values), then the links to unsubscribe and
        to choose among lists."""
        values_of_recipient = recipient_values(recipient.values, html_encoded=self.send.recipient_data_html_encoded)
        links = {"unsubscribe_link": channels.unsubscribe_link}
        if self._has_preferences_link:
            links[PREFERENCES_LINK] = channels.preferences_link(recipient.id)
        return MergedValues(values_of_recipient, self._contact_values(recipient), links)

    def _contact_values(self, recipient: ClaimedRecipient) -> Mapping[str, object]:
        if recipient.contact is None:
            list_id = shown_id(self.send.list_id)
            return {"mobile" if self.send.type == "sms" else "email": recipient.address, "list_id": list_id}
        return ContactValues(recipient.contact, self._zone, self.send.hidden_attributes)


def _mail_too_large(limit: int) -> MessageTooLarge:
    return MessageTooLarge(f"the mail has more than {limit} bytes")
