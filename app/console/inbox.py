"""The messages that test keys have sent, those that `file://` transports have written into folders, and one of them
with all that its page shows (docs/console-messages.md#inbox)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from app.accounts.sessions import BrowserSession
from app.console.content import TextMessage
from app.console.queries import address_filter
from app.content.plain_text import Tag, parse_html
from app.content.values import decode
from app.db.expressions import in_json
from app.db.models import Account, CapturedMessage, Recipient, Send, SendLink
from app.errors import ServiceError
from app.ids import UUID
from app.secret_keys import SecretKeys
from app.sends.secret_values import may_have_secrets
from app.tracking.feedback_channels import Instrumenter
from app.tracking.links import InlineLink, StoredLink, links_in_source, parse_link_token
from app.transports.email.read_mail import Mail, read_mail

PATH = "/console/inbox"


def text_filter(text: str) -> tuple[str, str]:
    """The filter of a text that somebody looks for: a uuid, an address or a number, else a whole subject."""
    if UUID.fullmatch(text):
        return "uuid", text
    name, value = address_filter(text)
    return ("address", value) if name == "email" or value.isdigit() else ("subject", text)


def from_addresses(session: Session, account_id: int, uuids: Iterable[str]) -> Mapping[str, str]:
    """The uuid of each of these messages -> the address that it is from, as its reader sees it. The envelope has
    another one, to which bounces go."""
    senders = select(Recipient.uuid, Send.from_address).join(Send, Send.id == Recipient.send_id)
    rows = session.execute(senders.where(Recipient.account_id == account_id, in_json(Recipient.uuid, [*uuids])))
    return {row.uuid: row.from_address for row in rows}


def find_message(session: Session, who: BrowserSession, message_id: int) -> CapturedMessage:
    """A captured message that somebody may see. Raises `not_found`."""
    statement = select(CapturedMessage).where(CapturedMessage.id == message_id)
    if who.account_id is not None:
        is_visible = or_(Account.id == who.account_id, Account.test_of == who.account_id)
        statement = statement.join(Account, Account.id == CapturedMessage.account_id).where(is_visible)
    message = session.scalars(statement).first() if who.sees_tests else None
    if message is None:
        raise ServiceError("not_found", detail=f"The inbox has no message {message_id}.")
    return message


# The messages that `file://` transports have written into folders of this machine (docs/console-messages.md#inbox).
#
# A file has no account: it is found by the uuid of a message that somebody may see.

FOLDERS = "/console/inbox/folders"
MAX_BYTES = 64 * 1024 * 1024
"""How long a file may be to be read: longer than the largest mail."""
SUFFIXES = {"email": ".eml", "sms": ".json"}


def find_file(folders: Iterable[Path], message_type: str, uuid: str) -> Path | None:
    """The file of the message; None if there is none."""
    name = f"{uuid}{SUFFIXES[message_type]}"
    return next((path for folder in folders if (path := folder / name).is_file()), None)


def read_file(folders: Iterable[Path], message_type: str, uuid: str) -> Mail | TextMessage:
    """The message as it was written. Raises `not_found`."""
    path = find_file(folders, message_type, uuid)
    content = None if path is None else _content(path)
    message = None if content is None else _message(content, message_type)
    if message is None:
        raise ServiceError("not_found", detail="No folder on this machine has a file of this message.")
    return message


def check_secrets(session: Session, recipient: Recipient) -> None:
    """Checks for somebody who is no operator. Raises `permission_denied` for a message with secret values, which its
    file has, and for one whose content is purged, so that nobody knows any more whether it had some."""
    purged = session.scalar(select(Send.content_purged_time).where(Send.id == recipient.send_id))
    if may_have_secrets(recipient.values, purged):
        raise ServiceError("permission_denied", detail="The file may contain secret values. Only operators can see it.")


def _content(path: Path) -> bytes | None:
    """The content of a file. None for one that was deleted meanwhile, or that no transport has written."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError:
        return None
    return content if len(content) <= MAX_BYTES else None


def _message(content: bytes, message_type: str) -> Mail | TextMessage | None:
    if message_type == "email":
        return read_mail(content)
    try:
        fields = json.loads(content)
        return TextMessage(str(fields["from"]), str(fields["to"]), str(fields["text"]))
    except (ValueError, KeyError, TypeError):
        return None


# A message of the inbox with all that its page shows (docs/console-messages.md#inbox).

# What the HTML of a mail has in it: links with their texts, images, and how much text. Pure, and linear in its length.

MAX_LINKS = 200
MAX_LINK_TEXT = 200
"""Characters of the text of a link."""


@dataclass(slots=True)
class HtmlLink:
    """A link as a reader sees it; an image in it counts by its `alt`."""

    target: str
    text: str = ""


@dataclass(slots=True)
class HtmlFacts:
    """`words` counts those of the text; `remote_images` are loaded from elsewhere."""

    links: list[HtmlLink] = field(default_factory=list)
    images: int = 0
    remote_images: int = 0
    without_alt: int = 0
    words: int = 0


def html_facts(html: str) -> HtmlFacts:
    """The facts of the HTML, with its first links."""
    facts, inside = HtmlFacts(), None
    for piece in parse_html(html):
        if isinstance(piece, str):
            facts.words += len(piece.split())
            _add_text(inside, decode(piece))
        elif piece.name == "a":
            inside = None if piece.closing else _link(facts, piece)
        elif piece.name == "img" and not piece.closing:
            _add_text(inside, _image(facts, piece))
    for link in facts.links:
        link.text = " ".join(link.text.split())
    return facts


def _link(facts: HtmlFacts, tag: Tag) -> HtmlLink | None:
    target = tag.attributes().get("href", "").strip()
    if not target or len(facts.links) >= MAX_LINKS:
        return None
    facts.links.append(HtmlLink(target))
    return facts.links[-1]


def _image(facts: HtmlFacts, tag: Tag) -> str:
    attributes = tag.attributes()
    facts.images += 1
    facts.remote_images += attributes.get("src", "").strip().lower().startswith(("http:", "https:", "//"))
    facts.without_alt += "alt" not in attributes
    return attributes.get("alt", "")


def _add_text(link: HtmlLink | None, text: str) -> None:
    if link is not None and len(link.text) < MAX_LINK_TEXT:
        link.text = (link.text + text)[:MAX_LINK_TEXT]


# The links of a mail, with what they say and where they lead (docs/console-messages.md#inbox).

_TRACKED = re.compile(r"/c/([A-Za-z0-9_-]{15,3000})\Z")
_HOST_IN_TEXT = re.compile(r"(?:https?://)?([a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,})(?:[/?#:]\S*)?", re.IGNORECASE)
"""A text that a reader takes for the address of a page."""


@dataclass(frozen=True, slots=True)
class MailLink:
    """A link: its text, its URL in the mail, and where it leads, which is elsewhere if it is tracked."""

    text: str
    url: str
    target: str

    @property
    def is_tracked(self) -> bool:
        """Whether the link leads by way of this service."""
        return self.url != self.target

    @property
    def misleads(self) -> bool:
        """Whether its text is the address of another site than the one that it leads to."""
        match = _HOST_IN_TEXT.fullmatch(self.text)
        if match is None:
            return False
        said, real = (host.lower().removeprefix("www.") for host in (match[1], _host(self.target)))
        return said != real and not real.endswith(f".{said}") and not said.endswith(f".{real}")

    @property
    def is_plain_http(self) -> bool:
        """Whether what it leads to is not encrypted on its way."""
        return self.target.lower().startswith("http:")


def links_of(
    session: Session, secret_keys: SecretKeys, account_id: int, mail: Mail, facts: HtmlFacts
) -> Sequence[MailLink]:
    """The first links of the mail: those of the HTML, or of the text without one; one statement."""
    links = facts.links if mail.html is not None else _links_in_text(mail.text or "")
    parsed = {link.target: _parse_link(secret_keys, link.target) for link in links}
    ids = {link.link_id for link in parsed.values() if isinstance(link, StoredLink)}
    stored = _stored_urls(session, account_id, ids) if ids else {}

    def target(url: str) -> str:
        link = parsed[url]
        if isinstance(link, InlineLink):
            return link.url
        return stored.get(link.link_id, url) if link is not None else url

    return [MailLink(link.text, link.target, target(link.target)) for link in links]


def _links_in_text(text: str) -> list[HtmlLink]:
    return [HtmlLink(url) for url in links_in_source("text_email", text)[:MAX_LINKS]]


def _parse_link(secret_keys: SecretKeys, url: str) -> StoredLink | InlineLink | None:
    token = _TRACKED.search(url)
    return None if token is None else parse_link_token(secret_keys, token[1])


def _stored_urls(session: Session, account_id: int, ids: Iterable[int]) -> dict[int, str]:
    statement = select(SendLink.id, SendLink.url).where(SendLink.account_id == account_id, in_json(SendLink.id, ids))
    return {row.id: row.url for row in session.execute(statement)}


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


# What filters of spam look at in a mail, as far as the mail itself tells (docs/console-messages.md#inbox). Pure.

FEW_WORDS = 20
"""A mail with images and fewer words than this counts as one of images alone."""
LARGE_HTML = 102 * 1024
"""Bytes of HTML from which on some mail programs cut a mail."""
LARGE_MAIL = 10 * 1024 * 1024
"""Bytes of a mail from which on some servers refuse it."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at, and what was found."""

    name: str
    is_good: bool
    finding: str


def checks_of(mail: Mail, facts: HtmlFacts, links: Sequence[MailLink]) -> list[Check]:
    """All checks that apply to the mail."""
    html_checks = [*_html(mail.html, facts)] if mail.html is not None else []
    return [*_headers(mail), *_text(mail), *html_checks, *_links(links), _size(mail)]


def _headers(mail: Mail) -> Iterator[Check]:
    yield _check("Subject", mail.header("Subject"), "present", "missing")
    unsigned = "missing: the domain has no DKIM key"
    yield _check("DKIM signature", mail.header("DKIM-Signature"), "present", unsigned)
    without = "List-Unsubscribe is missing: bulk mail needs it"
    yield _check("Unsubscribe", mail.header("List-Unsubscribe"), "List-Unsubscribe is present", without)
    if mail.header("List-Unsubscribe"):
        one_click = mail.header("List-Unsubscribe-Post")
        present, missing = "List-Unsubscribe-Post is present", "List-Unsubscribe-Post is missing"
        yield _check("One-click unsubscribe", one_click, present, missing)


def _text(mail: Mail) -> Iterator[Check]:
    yield _check("Plain text", (mail.text or "").strip(), "text part present", "text part missing")


def _html(html: str, facts: HtmlFacts) -> Iterator[Check]:
    only_images = facts.images > 0 and facts.words < FEW_WORDS
    counts = f"{facts.words} words and {facts.images} {'image' if facts.images == 1 else 'images'}"
    yield _check("Text and images", not only_images, counts, f"{counts}: too little text")
    if facts.images:
        missing = f"{facts.without_alt} of {facts.images} images have no alt text"
        yield _check("Image descriptions", not facts.without_alt, "all images have an alt text", missing)
    size = len(html.encode("utf-8", "replace"))
    words = f"{-(-size // 1024)} KiB"
    yield _check("HTML size", size < LARGE_HTML, words, f"{words}: some mail programs show only the first 102 KiB")


def _links(links: Sequence[MailLink]) -> Iterator[Check]:
    if not links:
        return
    misleading = next((link for link in links if link.misleads), None)
    problem = f"a link says {misleading.text} but leads to {misleading.target}" if misleading else ""
    yield _check("Link texts", misleading is None, "no link text names another site", problem)
    plain = sum(link.is_plain_http for link in links)
    yield _check("HTTPS links", not plain, "all links use https", f"{plain} of {len(links)} links use http")


def _size(mail: Mail) -> Check:
    words = f"{-(-len(mail.source) // 1024)} KiB"
    return _check("Size", len(mail.source) < LARGE_MAIL, words, f"{words}: some servers refuse more than 10 MiB")


def _check(name: str, is_good: object, good: str, bad: str) -> Check:
    return Check(name, bool(is_good), good if is_good else bad)


@dataclass(frozen=True, slots=True)
class OpenedMail:
    """A mail, as it left."""

    mail: Mail
    links: Sequence[MailLink]
    checks: Sequence[Check]


def message_of_capture(message: CapturedMessage) -> Mail | TextMessage:
    """The mail or the text message that was captured."""
    if message.type == "sms":
        return TextMessage(message.sender, message.address, message.content.decode("utf-8", "replace"))
    return read_mail(message.content)


def open_mail(session: Session, secret_keys: SecretKeys, account_id: int, mail: Mail) -> OpenedMail:
    """The account's mail with what there is to say about it; one statement."""
    facts = HtmlFacts() if mail.html is None else html_facts(Instrumenter.without_pixel(mail.html))
    links = links_of(session, secret_keys, account_id, mail, facts)
    return OpenedMail(mail, links, checks_of(mail, facts, links))


def to_look_at(mail: Mail) -> Mail:
    """The mail without the pixel in its HTML, so that looking at it is no opening."""
    return mail if mail.html is None else replace(mail, html=Instrumenter.without_pixel(mail.html))
