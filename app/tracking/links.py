"""Tracked links: finding them in a body, their tokens, their targets, and the hosts under which they work."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Literal
from urllib.parse import quote, unquote_plus

import idna
from sqlalchemy import String, bindparam, func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.content.values import decode, encode
from app.content.wildcards import DELIMITER
from app.db.database import Database
from app.db.expressions import in_json, json_array
from app.db.models import Account, AccountHost, Recipient, SendLink
from app.db.outage import is_unavailable
from app.db.prepared import PreparedStatement
from app.secret_keys import SecretKeys
from app.settings import Settings
from app.tracking.tokens import CLICK_PURPOSE, MAX_TOKEN_LENGTH, encode_int, sign_token, verify_token

LinkType = Literal["html_email", "text_email"]
ReplaceUrl = Callable[[str], str | None]
"""Returns the URL that replaces the one found, or None to keep it."""

_TAG = re.compile(r"<(?:a|area)(?=[\s/])", re.IGNORECASE)
# As in browsers, a value may be missing before the end of the tag, and a stray "=" is a name. There is no match only if
# the tag or a quoted value does not end.
_ATTRIBUTE = re.compile(
    r"""
    [\s/]*([^\s/>][^\s/>=]*+)
    (?:\s*+=\s*+(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s>"'][^\s>]*+)|(?=>))|(?!\s*+=))
    """,
    re.VERBOSE,
)
_END = re.compile(r"[\s/]*>")
_WEB = re.compile(r"https?://[^\s/?#]", re.IGNORECASE)
_TEXT_URL = re.compile(r"https?://(?:(?!\]\()[^\s<>\"])+", re.IGNORECASE)
"""It ends before `](`, because the text of a link in a generated text, `[text](address)`, may itself be a URL."""
_NEXT_URL = re.compile(r"[,;]https?://", re.IGNORECASE)
"""Where the next URL of a list may begin, or a URL in the query of another."""
_DROPPED_BY_BROWSERS = re.compile(r"[\t\r\n]+")
_PUNCTUATION = ".,;:!?'"
"""Characters at the end of a URL in a text that belong to the surrounding sentence."""
_OPENING = {")": "(", "]": "["}
_ROUND_BRACKET = re.compile(r"[()]")

MAX_SCANNED = 5_000
"""Tags in HTML, URLs in a text. Further ones are not replaced."""


def replace_in_html(body: str, replace: ReplaceUrl) -> str:
    """The HTML with links replaced; everything else is kept byte for byte."""
    pieces: list[str] = []
    position = 0
    for start, end, url in _links_in_html(body):
        new = replace(url)
        if new is not None:
            pieces += [body[position:start], f'"{encode(new)}"']
            position = end
    pieces.append(body[position:])
    return "".join(pieces)


def replace_in_text(body: str, replace: ReplaceUrl) -> str:
    """The text with links replaced."""

    def replaced(match: re.Match[str]) -> str:
        url = _url_of_match(match)
        new = replace(url) if _WEB.match(url) else None
        return match[0] if new is None else new + match[0][len(url) :]

    return _TEXT_URL.sub(replaced, body, count=MAX_SCANNED)


def written_links(link_type: LinkType, source: str) -> list[str]:
    """The distinct links of a template as they are written, in their order."""
    urls: dict[str, None] = {}

    def note(url: str) -> None:
        urls[url] = None

    replace = replace_in_html if link_type == "html_email" else replace_in_text
    replace(source, note)
    return list(urls)


def links_in_source(link_type: LinkType, source: str) -> list[str]:
    """The distinct links of a template that are the same for all recipients, in their order.

    A URL with a wildcard differs between recipients.
    """
    return [url for url in written_links(link_type, source) if DELIMITER not in url]


def _links_in_html(body: str) -> list[tuple[int, int, str]]:
    """Start and end of each attribute value with its quotes, and the decoded URL."""
    links: list[tuple[int, int, str]] = []
    position = 0
    for _ in range(MAX_SCANNED):
        tag = _TAG.search(body, position)
        if tag is None:
            break
        position = tag.end()
        href: tuple[int, int, str] | None = None
        while not (end := _END.match(body, position)):
            attribute = _ATTRIBUTE.match(body, position)
            if attribute is None:
                return links  # an unclosed tag: browsers ignore everything after it, too
            position = attribute.end()
            if href is None and attribute[1].lower() == "href":
                href = _value(attribute)
        position = end.end()
        if href and _WEB.match(href[2]):
            links.append(href)
    return links


def _value(attribute: re.Match[str]) -> tuple[int, int, str]:
    """Start, end and URL of an attribute's value; empty if it has none."""
    for name in ("double", "single", "bare"):
        if attribute[name] is not None:
            quotes = 0 if name == "bare" else 1
            url = _DROPPED_BY_BROWSERS.sub("", decode(attribute[name]).strip())
            return attribute.start(name) - quotes, attribute.end(name) + quotes, url
    return attribute.end(), attribute.end(), ""


def _url_of_match(match: re.Match[str]) -> str:
    """The URL without what follows it. The address of `[text](address)` ends at its closing bracket."""
    if match.string.endswith("](", 0, match.start()):
        depth = 0
        for bracket in _ROUND_BRACKET.finditer(match[0]):
            depth += 1 if bracket[0] == "(" else -1
            if depth < 0:
                return match[0][: bracket.start()]
    return _without_punctuation(match[0])


def _without_punctuation(url: str) -> str:
    """The URL without the punctuation that follows it; a closing bracket belongs to it if the URL opens one. Empty if
    it is not clear where it ends: in some scripts no space follows a URL, nor in some lists."""
    end = len(url.rstrip(_PUNCTUATION + ")]" + foreign_marks(url)))
    if _NEXT_URL.search(url) or not _is_latin(url[:end]):
        return ""
    unclosed = {close: url.count(opening, 0, end) - url.count(close, 0, end) for close, opening in _OPENING.items()}
    while end < len(url) and unclosed.get(url[end], 0) > 0:
        unclosed[url[end]] -= 1
        end += 1
    return url[:end]


def foreign_marks(text: str) -> str:
    """The punctuation and separators in the text that are not ASCII."""
    foreign = () if text.isascii() else set(text)
    return "".join(sign for sign in foreign if not sign.isascii() and unicodedata.category(sign)[0] in "PZ")


def _is_latin(text: str) -> bool:
    letters = () if text.isascii() else set(unicodedata.normalize("NFC", text))
    return all(letter.isascii() or unicodedata.name(letter, "").startswith("LATIN ") for letter in letters)


STORED_LINK_BYTE = 0
LINK_TYPE_BY_BYTE: dict[int, LinkType] = {1: "html_email", 2: "text_email"}
"""First byte of a token that contains its URL."""
BYTE_BY_LINK_TYPE = {link_type: code for code, link_type in LINK_TYPE_BY_BYTE.items()}


@dataclass(frozen=True, slots=True)
class StoredLink:
    """A link that is stored with its send."""

    recipient_id: int
    link_id: int


@dataclass(frozen=True, slots=True)
class InlineLink:
    """A link whose URL is part of the token."""

    recipient_id: int
    link_type: LinkType
    url: str


def link_token(secret_key: str, link: StoredLink | InlineLink) -> str | None:
    """The token of a link; None for a URL that is too long for one."""
    recipient = encode_int(link.recipient_id)
    if isinstance(link, StoredLink):
        content = bytes([STORED_LINK_BYTE, len(recipient)]) + recipient + encode_int(link.link_id)
    else:
        content = bytes([BYTE_BY_LINK_TYPE[link.link_type], len(recipient)]) + recipient + link.url.encode()
    token = sign_token(secret_key, CLICK_PURPOSE, content)
    return token if len(token) <= MAX_TOKEN_LENGTH else None


def parse_link_token(secret_keys: SecretKeys, token: str) -> StoredLink | InlineLink | None:
    """The link of a token; None for an invalid token."""
    content = verify_token(secret_keys, CLICK_PURPOSE, token)
    if content is None:
        return None
    code, length, rest = content[0], content[1], content[2:]
    recipient_id = int.from_bytes(rest[:length], "big")
    if code == STORED_LINK_BYTE:
        return StoredLink(recipient_id, int.from_bytes(rest[length:], "big"))
    return InlineLink(recipient_id, LINK_TYPE_BY_BYTE[code], rest[length:].decode())


SECRET_NAMES = frozenset(
    (
        *(
            "access",
            "apikey",
            "assertion",
            "auth",
            "authorization",
            "code",
            "credential",
            "credentials",
            "hash",
            "hmac",
        ),
        *("invitation", "invite", "jwt", "key", "login", "magic", "nonce", "oobcode", "otp", "passcode", "passphrase"),
        *("passwd", "password", "pin", "pwd", "reset", "saml", "samlresponse", "secret", "session", "sessionid", "sid"),
        *("sig", "sign", "signature", "ticket", "token", "verification", "verify"),
    )
)
"""Words that mark a parameter as secret if its name contains one: `reset_token`, `inviteCode`, `X-Amz-Signature`."""

SHORTEST_SECRET = 20
"""Characters of the shortest value that can look random; decoding it makes none longer."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LETTERS_AND_DIGITS = re.compile(rf"[A-Za-z0-9]{{{SHORTEST_SECRET},}}")
_WITH_MARKS = re.compile(rf"[A-Za-z0-9_\-]{{{SHORTEST_SECRET},}}")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_KINDS = tuple(re.compile(kind) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
_SEPARATOR = re.compile("[&;]")


def has_secret(url: str) -> bool:
    """Whether a parameter of the query, or of the fragment, looks like a secret."""
    _, separator, rest = url.partition("?")
    if not separator:
        _, separator, rest = url.partition("#")
    return bool(separator) and any(_is_secret(part) for part in _SEPARATOR.split(rest.replace("#", "&")))


def exempt_none(_url: str) -> bool:
    """Exempts no link, for sends that track all links."""
    return False


def _is_secret(part: str) -> bool:
    name, equals, value = part.partition("=")
    if equals and value and not SECRET_NAMES.isdisjoint(_words(unquote_plus(name))):
        return True
    text = value if equals else part
    return len(text) >= SHORTEST_SECRET and _looks_random(unquote_plus(text))


def _words(name: str) -> list[str]:
    """The words of a name, however they are joined, and the whole name."""
    return [*(word.lower() for word in _WORD.findall(name)), name.lower()]


def _looks_random(value: str) -> bool:
    """Whether the value contains a UUID, a run of 20 that mixes letters and digits, or one of 20 with capitals, small
    letters and digits, including `-` and `_`. No words of a language look like that."""
    if _UUID.search(value):
        return True
    both = (match[0] for match in _LETTERS_AND_DIGITS.finditer(value))
    if any(_KINDS[2].search(run) and not run.isdigit() for run in both):
        return True
    return any(all(kind.search(match[0]) for kind in _KINDS) for match in _WITH_MARKS.finditer(value))


MAX_LINKS = 500
"""Links of one body that are stored; further ones are inline in their tokens."""
MAX_URL_BYTES = 2000
"""Bytes of a stored URL; a longer one does not fit into an index entry."""
MAX_CACHED_LENGTH = 100_000
"""Characters of a template whose links are cached, because the same few messages are sent again and again."""

STORED_LINKS = PreparedStatement(
    select(SendLink.send_id, SendLink.link_type, SendLink.url, SendLink.id).where(
        in_json(SendLink.send_id, bindparam("send_ids", type_=String))
    )
)


def link_rows(
    body_html: str | None, body_text: str | None, is_exempt: Callable[[str], bool] = exempt_none
) -> list[dict[str, Any]]:
    """Rows of the tracked links of a send's bodies. A text that is generated from the HTML has the links of the
    HTML."""
    html_links = _links("html_email", body_html or "")
    links_by_type: dict[LinkType, tuple[str, ...]] = {
        "html_email": html_links,
        "text_email": html_links if body_text is None else _links("text_email", body_text),
    }
    return [
        {"link_type": link_type, "url": url}
        for link_type, urls in links_by_type.items()
        for url in urls
        if not is_exempt(url)
    ]


def find_links(session: Session, send_ids: Collection[int]) -> dict[int, dict[tuple[str, str], int]]:
    """The stored links of each send: type and URL -> id; one select, and none for no sends."""
    links_by_send: dict[int, dict[tuple[str, str], int]] = defaultdict(dict)
    if not send_ids:
        return links_by_send
    for send_id, link_type, url, link_id in STORED_LINKS.tuples(session, send_ids=json_array(send_ids)):
        links_by_send[send_id][link_type, url] = link_id
    return links_by_send


def _links(link_type: LinkType, source: str) -> tuple[str, ...]:
    list_links = _cached_links if len(source) <= MAX_CACHED_LENGTH else _first_links
    return list_links(link_type, source)


def _first_links(link_type: LinkType, source: str) -> tuple[str, ...]:
    fitting = (url for url in links_in_source(link_type, source) if len(url.encode()) <= MAX_URL_BYTES)
    return tuple(islice(fitting, MAX_LINKS))


_cached_links = lru_cache(maxsize=64)(_first_links)


PRINTABLE_CHARACTERS = "".join(map(chr, range(0x21, 0x7F)))
"""Characters that stay as they are in a URL; all others are percent-encoded, as browsers do."""
_END_OF_HOST = re.compile(r"[/?#\\]")


@dataclass(frozen=True, slots=True)
class LinkTarget:
    """A link that a recipient follows. `link_type` is `html_email` or `text_email`."""

    recipient_id: int
    link_type: str
    url: str


def find_link_target(session: Session, secret_keys: SecretKeys, token: str) -> LinkTarget | None:
    """The target of a token; None for an invalid token, or one whose send is deleted."""
    link = parse_link_token(secret_keys, token)
    if link is None:
        return None
    if isinstance(link, InlineLink):
        return LinkTarget(link.recipient_id, link.link_type, link.url)
    statement = (
        select(SendLink.link_type, SendLink.url)
        .join(Recipient, Recipient.send_id == SendLink.send_id)
        .where(SendLink.id == link.link_id, Recipient.id == link.recipient_id)
    )
    row = session.execute(statement).one_or_none()
    return None if row is None else LinkTarget(link.recipient_id, row.link_type, row.url)


def location_header(url: str) -> str:
    """The URL for a Location header. One in ASCII without spaces stays as it is. A text that is not a URL is left to
    the browser."""
    start = url.find("//") + 2
    end = _END_OF_HOST.search(url, start)
    place = url[start : end.start() if end else len(url)]
    user, at, host = place.rpartition("@")
    name, colon, port = host.partition(":")
    return quote(
        url.replace(place, f"{user}{at}{_ascii(name)}{colon}{port}", 1), safe=PRINTABLE_CHARACTERS, errors="replace"
    )


def _ascii(name: str) -> str:
    try:
        return name if name.isascii() else idna.encode(name, uts46=True).decode("ascii")
    except idna.IDNAError:
        return name


def redirects_under(session: Session, settings: Settings, host: str, recipient_id: int) -> bool:
    """Whether a link of the recipient redirects under the host. One whose recipient is deleted does not under the host
    of an account: whose it was is not known any more. Under a host of the installation this takes no statement."""
    return settings.is_own_host(host) or _is_of_account(session, host, recipient_id) is True


def is_foreign(database: Database, settings: Settings, host: str, recipient_id: int) -> bool:
    """Whether the host is, or was, that of other accounts and not of the recipient's. While the database is not
    available none is: an open of the recipient is recorded later, whatever the host, and harms nobody."""
    if settings.is_own_host(host):
        return False
    try:
        with database.read() as session:
            return _is_of_account(session, host, recipient_id) is False
    except SQLAlchemyError as error:
        if is_unavailable(error):
            return False
        raise


def _is_of_account(session: Session, host: str, recipient_id: int) -> bool | None:
    """Whether the account of the recipient has or had the host, or nobody; None if somebody has, and there is no such
    recipient. What a test account has sent is its live account's. One statement."""
    account = (
        select(func.coalesce(Account.test_of, Account.id))
        .join(Recipient, Recipient.account_id == Account.id)
        .where(Recipient.id == recipient_id)
        .scalar_subquery()
    )
    rows = session.execute(select(AccountHost.account_id, account).where(AccountHost.host == host)).all()
    if not rows:
        return True
    return None if rows[0][1] is None else any(holder == recipient_account for holder, recipient_account in rows)
