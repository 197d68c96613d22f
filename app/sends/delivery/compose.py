"""From a send and one of its recipients to the message that leaves.

A `CompiledMessage` is the part of a send that does not vary: templates compiled and attachments encoded once, then
filled in per recipient. Threads share letters; filling in changes nothing that another one notices. Pure; no database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from app.addresses import domain_of
from app.clock import zone_of_account
from app.content.plain_text import plain_text
from app.content.render import Rendered, Template, TooLong, size_of
from app.content.templates import template
from app.content.values import AllValues, Values, recipient_values
from app.sends.delivery.bounds import MAX_SUBJECT_BYTES, MessageTooLarge
from app.sends.delivery.contact_values import ContactValues
from app.sends.delivery.sign import StoredKey
from app.sends.delivery.sizes import Sizes, Source
from app.sends.delivery.suppression import ContactState
from app.sends.delivery.unsendable import EmptyMessage
from app.tracking.feedback_channels import FeedbackChannels
from app.tracking.instrument import NO_LINKS, LinkIds
from app.tracking.secret_links import exempt_none, has_secret
from app.transports.base import OutboundEmail, OutboundSms
from app.transports.email import mime

Render = Callable[[Values, Mapping[str, str], int], Rendered]


@dataclass(frozen=True, slots=True)
class SendContent:
    """A send as it was accepted."""

    id: int
    request_id: str
    creation_time: datetime
    type: str
    list_id: int | None
    unsubscribe_type: str | None
    subject: str | None
    from_name: str | None
    from_address: str
    reply_to: str | None
    bcc_address: str | None
    body_html: str | None
    body_text: str | None
    include_unsubscribed: bool
    recipient_data_html_encoded: bool
    track_opens: bool
    track_clicks: bool
    track_secrets: bool
    time_zone: str
    """That of the account (docs/personalisation.md#time-zone)."""
    shadowing: int | None
    """Which attributes of contacts are hidden by fields of the list: a sum of `contact_values.GIVES_WAY`."""


class Addressee(NamedTuple):
    """One recipient, as far as its message depends on it. `values` are its own, `files` its own attachments."""

    id: int
    uuid: str
    address: str
    contact: ContactState | None
    values: dict[str, Any]
    files: Sequence[mime.EncodedAttachment]


class RenderedContent(NamedTuple):
    """Subject and bodies of one message, before tracking is added."""

    subject: str
    html: str | None
    text: str | None

    @property
    def size(self) -> int:
        """Bytes of all of it."""
        return sum(size_of(part) for part in self if part)


class CompiledMessage:
    """What all recipients of a send get."""

    def __init__(
        self,
        send: SendContent,
        files: Sequence[mime.EncodedAttachment],
        keys: Sequence[StoredKey] = (),
        links: LinkIds = NO_LINKS,
    ) -> None:
        self.send = send
        self._links = links
        self.keys = keys
        """What signs its mails."""
        self._files = files
        self._zone = zone_of_account(send.time_zone)
        self.sizes = Sizes(
            Source.of(send.subject),
            Source.of(send.body_html),
            Source.of(send.body_text),
            is_read=send.body_html is not None and send.body_text is None,
        )
        self._last_read = "", ""
        self._spared = exempt_none if send.track_secrets else has_secret

    # Compiled by the thread that needs it first: whoever loads a chunk has others waiting.

    @cached_property
    def _subject(self) -> Template:
        return template(self.send.subject or "", self._zone)

    @cached_property
    def _html(self) -> Template | None:
        return template(self.send.body_html, self._zone) if self.send.body_html is not None else None

    @cached_property
    def _text(self) -> Template | None:
        return template(self.send.body_text, self._zone) if self.send.body_text is not None else None

    def filled_in(self, addressee: Addressee, ways: FeedbackChannels, most: int) -> RenderedContent:
        """Subject and bodies for one recipient, each body of at most so many bytes.

        Raises `MessageTooLarge`.
        """
        values = self._values(addressee, ways)
        names = {file.name: file.content_id or "" for file in (*self._files, *addressee.files)}
        subject = _bounded("subject", MAX_SUBJECT_BYTES, self._subject.header, values, names)
        html = _bounded("body_html", most, self._html.html, values, names) if self._html else None
        text = _bounded("body_text", most, self._text.text, values, names) if self._text else None
        if text is None and html is not None:
            text = self._read(html) or None  # what there is to read in the HTML
            if text is not None and size_of(text) > most:
                raise MessageTooLarge(f"the text that is made of body_html has more than {most} bytes")
        return RenderedContent(subject, html, text)

    def email_to(
        self, addressee: Addressee, ways: FeedbackChannels, filled: RenderedContent, most: int
    ) -> OutboundEmail:
        """The mail for one recipient. Tried again, it has the same Message-ID and the same date.

        Raises `MessageTooLarge` for one of more bytes than that.
        """
        marked = filled._replace(
            html=filled.html and self._marked_html(filled.html, addressee, ways),
            text=filled.text and self._marked_text(filled.text, addressee, ways),
        )
        content = self._content(addressee, marked, most, self._ways_to_leave(ways))
        return OutboundEmail(addressee.uuid, ways.return_path, addressee.address, content)

    def copy_of(
        self, addressee: Addressee, ways: FeedbackChannels, filled: RenderedContent, most: int
    ) -> OutboundEmail:
        """The blind copy of one recipient's mail: the same to read, but nothing in it acts in the recipient's name
        (docs/sending.md#blind-copies). It is filled in with the ways of a copy."""
        content = self._content(addressee, filled, most, None)
        return OutboundEmail(f"{addressee.uuid}-bcc", ways.return_path, self.send.bcc_address or "", content)

    def _content(
        self, addressee: Addressee, filled: RenderedContent, most: int, unsubscribe: tuple[str, str | None] | None
    ) -> bytes:
        send, html, text = self.send, filled.html, filled.text
        self.check_files(addressee, most, beside=len(html or "") + len(text or ""))
        content = mime.build(
            from_name=send.from_name,
            from_address=send.from_address,
            to=addressee.address,
            reply_to=send.reply_to,
            subject=filled.subject,
            html=html,
            text=text,
            attachments=[*self._files, *addressee.files],
            message_id=f"{addressee.uuid}@{domain_of(send.from_address)}",
            date=send.creation_time,
            unsubscribe=unsubscribe,
        )
        if len(content) > most:
            raise _too_large_a_mail(most)
        return content

    def _ways_to_leave(self, ways: FeedbackChannels) -> tuple[str, str | None] | None:
        """What mail programs are told: of the list, and not where who leaves would get the next mail all the same."""
        if self.send.list_id is None or self.send.include_unsubscribed:
            return None
        return ways.unsubscribe_link, ways.unsubscribe_address

    def check_files(self, addressee: Addressee, most: int, *, beside: int = 0) -> None:
        """Raises `MessageTooLarge` when the attachments and `beside` more bytes are too large for a mail, before the
        rest is composed."""
        if beside + sum(len(file.body) for file in (*self._files, *addressee.files)) > most:
            raise _too_large_a_mail(most)

    def _read(self, html: str) -> str:
        """The text of the HTML, which is the same for all recipients where the HTML is."""
        known, text = self._last_read
        if known != html:
            text = plain_text(html)
            self._last_read = html, text
        return text

    def _marked_html(self, html: str, addressee: Addressee, ways: FeedbackChannels) -> str:
        """The body as it tells of opens and clicks, as far as the send asks for it."""
        if self.send.track_clicks:
            html = ways.marker.with_links(html, "html_email", addressee.id, self._links, self._spared)
        return ways.marker.with_pixel(html, addressee.id) if self.send.track_opens else html

    def _marked_text(self, text: str, addressee: Addressee, ways: FeedbackChannels) -> str:
        if self.send.track_clicks:
            text = ways.marker.with_links(text, "text_email", addressee.id, self._links, self._spared)
        return text

    def sms_to(self, addressee: Addressee, ways: FeedbackChannels, filled: RenderedContent) -> OutboundSms:
        """The text for one recipient, with its opt-out link where the send asks for one
        (docs/sending.md#opting-out-of-sms). Raises `EmptyMessage` where only that would be left
        (docs/delivery.md#skipped-recipients)."""
        text = filled.text or ""
        if not text.strip():
            raise EmptyMessage("the text is empty once it is filled in")
        if self.send.unsubscribe_type == "link":
            text = f"{text}\nOpt out: {ways.unsubscribe_link}"
        return OutboundSms(addressee.uuid, self.send.from_address, addressee.address, text)

    def _values(self, addressee: Addressee, ways: FeedbackChannels) -> Values:
        """The recipient's own values go before the contact's (docs/personalisation.md#values), and
        both before the link of the service."""
        own = recipient_values(addressee.values, html_encoded=self.send.recipient_data_html_encoded)
        return AllValues(own, self._known_of(addressee), {"unsubscribe_link": ways.unsubscribe_link})

    def _known_of(self, addressee: Addressee) -> Mapping[str, object]:
        contact = addressee.contact
        if contact is None:
            return {"mobile" if self.send.type == "sms" else "email": addressee.address, "list_id": self.send.list_id}
        return ContactValues(contact, self._zone, self.send.shadowing)


def _bounded(name: str, most: int, render: Render, values: Values, names: Mapping[str, str]) -> str:
    try:
        return render(values, names, most).text
    except TooLong:
        raise MessageTooLarge(f"{name} has more than {most} bytes once it is filled in") from None


def _too_large_a_mail(most: int) -> MessageTooLarge:
    return MessageTooLarge(f"the mail has more than {most} bytes")
