"""Encodes a mail (RFC 5322 and MIME) from the content rendered for one recipient.

Header fields are bytes, from any text: short ASCII lines that never contain a second field. They are built by hand
instead of by the standard library, whose folding in Python 3.11 allows an injected line break (CVE-2024-6923) or loses
a comma (CVE-2025-1795), and takes time quadratic in the text's length.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime, getaddresses
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

import idna

from app.addresses import LONGEST_EMAIL
from app.content.attachments import plain_type
from app.decoding import decode_words

# Mail addresses in SMTP commands and headers.

_UNSAFE = re.compile(r"[\x00-\x20\x7f-\x9f<>\u2028\u2029\ud800-\udfff]")


def ascii_domain(address: str) -> str:
    """`address` with an international domain in its ASCII form (`bücher.example` is `xn--bcher-kva.example`).

    Every server understands that form, whereas any server on the way without SMTPUTF8 would refuse the other one. A
    domain without an ASCII form is left unchanged.
    """
    if address.isascii():
        return address
    local, at, domain = address.rpartition("@")
    if domain.isascii():
        return address
    try:
        return f"{local}{at}{idna.encode(domain, uts46=True).decode('ascii')}"
    except idna.IDNAError:
        return address


def is_safe(address: str) -> bool:
    """Whether the address is safe in an SMTP command: no line break, space, control character or bracket."""
    return _UNSAFE.search(address) is None


LINE = 76
MAX_LINE_LENGTH = 998
FILE_NAME_PIECE = 60
ONE_CLICK = b"List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"

_NO_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_PLAIN = re.compile(r"[\x20-\x7e]*")
# An escape such as %C3 is never cut in two.
_PIECE = re.compile(rf"(?:%[0-9A-F]{{2}}|[^%]){{1,{FILE_NAME_PIECE}}}")
_WORDS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")


def one_line(text: str) -> str:
    """`text` with each run of line breaks and control characters replaced by a space, and stripped."""
    if text.isascii() and text.isprintable():  # nearly all are, and hold nothing to replace
        return text.strip()
    return _NO_TEXT.sub(" ", text).encode("utf-8", "replace").decode().strip()


def text_header(name: str, text: str) -> bytes:
    """A field of free text, such as Subject."""
    return _field(name, _unstructured(name, one_line(text)))


def address_header(name: str, address: str, display_name: str = "") -> bytes:
    """A field with one mailbox.

    An international domain is written in ASCII. A local part that is not ASCII has no such form and stays UTF-8
    (RFC 6532): only a server with SMTPUTF8 accepts that message.
    """
    address = ascii_domain(one_line(address))
    if not display_name:
        return _field(name, address)
    phrase = _phrase(name, one_line(display_name))
    if not phrase:
        return _field(name, address)
    last_line = f"{name}: {phrase}".rpartition("\r\n")[2]
    gap = " " if len(last_line) + len(address) + 3 <= LINE else "\r\n "
    return _field(name, f"{phrase}{gap}<{address}>")


def identifier_header(name: str, identifier: str) -> bytes:
    """A field such as Message-ID, from an identifier with or without its angle brackets."""
    return _field(name, f"<{ascii_domain(one_line(identifier).strip('<>'))}>")


def unsubscribe_headers(link: str, address: str | None) -> bytes:
    """List-Unsubscribe, and List-Unsubscribe-Post for one-click unsubscribing by POST (RFC 8058)."""
    targets = [f"<{one_line(link)}>"] + ([f"<mailto:{one_line(address)}>"] if address else [])
    return _field("List-Unsubscribe", ",\r\n ".join(targets)) + ONE_CLICK


def disposition_header(disposition: str, file_name: str) -> bytes:
    """Content-Disposition with a file name, encoded by RFC 2231 unless it is short ASCII."""
    parameters = "".join(f";\r\n {parameter}" for parameter in _file_name(one_line(file_name)))
    return _field("Content-Disposition", f"{disposition}{parameters}")


def _field(name: str, value: str) -> bytes:
    return f"{name}: {value}\r\n".encode()


def _unstructured(name: str, text: str) -> str:
    if _is_plain(text):
        if len(name) + len(text) + 2 <= LINE:
            return text
        # A run of spaces could become a line of spaces only, which some servers take for the end of the header.
        if "  " not in text and max(map(len, text.split(" "))) + len(name) + 2 <= MAX_LINE_LENGTH:
            return _folded(name, text)
    return _encoded_words(name, text)


def _folded(name: str, text: str) -> str:
    """The words in folded lines of the maximum length."""
    lines, line, room = list[str](), "", LINE - len(name) - 2
    for word in text.split(" "):
        if line and len(line) + len(word) >= room:
            lines.append(line)
            line, room = word, LINE - 1
        else:
            line = f"{line} {word}" if line else word
    return "\r\n ".join([*lines, line])


def _phrase(name: str, text: str) -> str:
    """A display name (RFC 5322, 3.2.5)."""
    if not _is_plain(text) or len(name) + len(text) + 4 > LINE:
        return _encoded_words(name, text)
    if not text or _WORDS.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _is_plain(text: str) -> bool:
    """Whether the text needs no encoding; `=?` would begin an encoded word (RFC 2047)."""
    return _PLAIN.fullmatch(text) is not None and "=?" not in text


def _encoded_words(name: str, text: str) -> str:
    """The text as encoded words (RFC 2047), one on each line, in the shorter of the two encodings."""
    quoted = [_q_encoded(character) for character in text]
    if sum(map(len, quoted)) <= -(-len(text.encode()) // 3) * 4:
        encoding, pieces = "q", _chunked(quoted, LINE - len(name) - len(": =?utf-8?q??="))
    else:
        encoding, pieces = "b", _chunked(text, (LINE - len(name) - len(": =?utf-8?b??=")) // 4 * 3)
        pieces = [base64.b64encode(piece.encode()).decode("ascii") for piece in pieces]
    return "\r\n ".join(f"=?utf-8?{encoding}?{piece}?=" for piece in pieces)


@lru_cache(maxsize=4096)
def _q_encoded(character: str) -> str:
    """A character in the Q encoding, safe in unstructured fields as well as in phrases."""
    if character.isascii() and character.isalnum():
        return character
    return "_" if character == " " else "".join(f"={byte:02X}" for byte in character.encode())


def _chunked(units: Iterable[str], room: int) -> list[str]:
    """The units joined to pieces of at most `room` bytes; no unit is split."""
    pieces, piece, left = list[str](), list[str](), room
    for unit in units:
        size = len(unit) if unit.isascii() else len(unit.encode())
        if size > left and piece:
            pieces.append("".join(piece))
            piece, left = [], room
        piece.append(unit)
        left -= size
    return [*pieces, "".join(piece)]


def _file_name(name: str) -> Iterator[str]:
    if _PLAIN.fullmatch(name) and len(name) <= FILE_NAME_PIECE and not set(name) & set('"\\%'):
        yield f'filename="{name}"'
        return
    pieces = _PIECE.findall("utf-8''" + quote(name, safe=""))
    if len(pieces) == 1:
        yield f"filename*={pieces[0]}"
        return
    for number, piece in enumerate(pieces):
        yield f"filename*{number}*={piece}"


# Header fields that the author of a mail has written.


class AuthorHeaders(NamedTuple):
    """The encoded fields, and their names in lower case: the service writes no field of such a name."""

    block: bytes
    names: frozenset[str]

    def replace(self, *names: str) -> bool:
        """Whether one of these fields is among them."""
        return not self.names.isdisjoint(names)


NO_HEADERS = AuthorHeaders(b"", frozenset())
ADDRESS_FIELDS = frozenset({"to", "cc", "reply-to"})
"""Fields of addresses that stay as they are written."""


def author_headers(headers: Mapping[str, str]) -> AuthorHeaders:
    """Encodes fields by their names. The values of address fields are written as in a mail; others are plain text."""
    encoded = [
        address_list_header(name, value) if name.lower() in ADDRESS_FIELDS else text_header(name, value)
        for name, value in headers.items()
    ]
    return AuthorHeaders(b"".join(encoded), frozenset(name.lower() for name in headers))


def address_list_header(name: str, written: str) -> bytes:
    """A field of addresses as somebody has written it, in folded lines. One that is not ASCII, or has too long a word,
    is encoded address by address."""
    words = one_line(written).split()
    if written.isascii() and max(map(len, words), default=0) + len(name) + 2 <= MAX_LINE_LENGTH:
        return _field(name, _folded(name, " ".join(words)))
    encoded = [
        _mailbox(name, one_line(decode_words(display_name)), ascii_domain(address))
        for display_name, address in mailboxes([" ".join(words)])
        if address and is_safe(address) and len(address) <= LONGEST_EMAIL
    ]
    return _field(name, ",\r\n ".join(encoded)) if encoded else text_header(name, written)


def _mailbox(name: str, display_name: str, address: str) -> str:
    return f"{_phrase(name, display_name)}\r\n <{address}>" if display_name else address


def mailboxes(values: Iterable[str]) -> list[tuple[str, str]]:
    """The names and addresses in address fields; none in fields whose comments are nested beyond measure."""
    try:
        return getaddresses(list(values))
    except (RecursionError, ValueError, IndexError):
        return []


# The parts of a mail: bodies, attachments, and the multiparts around them.
#
# An entity is a list of byte strings, header fields first, so that a large attachment is not copied before the whole
# message is joined. Everything is 7-bit, with lines of at most 998 characters.

Entity = list[bytes]

_NEEDS_NO_ENCODING = b"\t\n" + bytes(range(0x20, 0x7F))
_FROM = re.compile(rb"^From ", re.MULTILINE)
_REFERRING_TYPES = ("message/partial", "message/external-body")
"""Types that refer mail programs to content elsewhere."""
ANY_BYTES = "application/octet-stream"
_FIELD = re.compile(rb"[!-9;-~]+[ \t]*:")


@dataclass(frozen=True, slots=True)
class Attachment:
    """An attached file. It is inline if the HTML refers to `cid:<content_id>`."""

    name: str
    mime_type: str
    content: bytes
    content_id: str | None = None


@dataclass(frozen=True, slots=True)
class EncodedAttachment:
    """An attachment, encoded once for any number of messages."""

    name: str
    content_id: str | None
    content_type: str
    body: bytes = field(repr=False)
    encoding: str = "base64"

    def is_inline_in(self, html: str | None) -> bool:
        """Whether `html` refers to it."""
        return self.content_id is not None and html is not None and f"cid:{self.content_id}" in html

    def entity(self, *, inline: bool) -> Entity:
        """The part, for `multipart/related` or for `multipart/mixed`."""
        head = f"Content-Type: {self.content_type}\r\nContent-Transfer-Encoding: {self.encoding}\r\n".encode()
        if not inline:
            return [head, disposition_header("attachment", self.name), b"\r\n", self.body]
        content_id = identifier_header("Content-ID", self.content_id or "")
        return [head, disposition_header("inline", self.name), content_id, b"\r\n", self.body]


def encode_attachment(attachment: Attachment) -> EncodedAttachment:
    """Encodes an attachment: the expensive part, which does not depend on the recipient."""
    content_type = plain_type(attachment.mime_type) or ANY_BYTES
    if content_type.lower().startswith("message/"):
        if (
            not content_type.lower().startswith(_REFERRING_TYPES)
            and (lines := _seven_bit(attachment.content)) is not None
        ):
            return EncodedAttachment(attachment.name, attachment.content_id, content_type, lines, encoding="7bit")
        content_type = ANY_BYTES
    body = base64.encodebytes(attachment.content).replace(b"\n", b"\r\n")
    return EncodedAttachment(attachment.name, attachment.content_id, content_type, body)


def _seven_bit(content: bytes) -> bytes | None:
    """A message as an attachment of type `message/*`, which must not be encoded (RFC 2046, 5.2.1): it must consist of
    short ASCII lines and begin with a header field. None for any other message, which is attached as plain bytes."""
    lines = content.replace(b"\r\n", b"\n")
    is_plain = lines.isascii() and b"\r" not in lines and b"\0" not in lines
    if not is_plain or not _FIELD.match(lines) or max(map(len, lines.split(b"\n"))) > MAX_LINE_LENGTH:
        return None
    return lines.replace(b"\n", b"\r\n")


def text_entity(subtype: str, text: str) -> Entity:
    """A text body. Its line ends become CRLF, its last line gets one, and nothing else changes."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    data = text.encode("utf-8", "replace")
    if not data.endswith(b"\n"):
        data += b"\n"
    encoding, body = _encoded(data)
    return [_text_head(subtype, encoding), body.replace(b"\n", b"\r\n")]


@lru_cache
def _text_head(subtype: str, encoding: str) -> bytes:
    return f'Content-Type: text/{subtype}; charset="utf-8"\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n'.encode()


def multipart(subtype: str, entities: Sequence[Entity], boundary: str) -> Entity:
    """Several parts as one; a single part is returned as it is.

    `boundary` is 128 bits in hexadecimal digits, which the author of the parts could not predict.
    """
    if len(entities) == 1:
        return entities[0]
    # No encoded body contains "=_", and no plain one the unpredictable bits.
    mark = f"=_{boundary}_{subtype}".encode()
    root = b' type="text/html";' if subtype == "related" else b""  # RFC 2387, 3.1
    result = [b'Content-Type: multipart/%b;%b\r\n boundary="%b"\r\n\r\n' % (subtype.encode(), root, mark)]
    for entity in entities:
        result += [b"--%b\r\n" % mark, *entity, b"\r\n"]
    return [*result, b"--%b--\r\n" % mark]


def _encoded(data: bytes) -> tuple[str, bytes]:
    """The shortest of the three encodings that preserves `data`. A line that begins with From must be encoded: mail
    stores change it, which breaks signatures."""
    if not (data.translate(None, _NEEDS_NO_ENCODING) or _has_from(data) or _has_long_line(data)):
        return "7bit", data
    beyond_ascii = len(data) - len(data.decode().encode("ascii", "ignore"))
    if beyond_ascii * 6 > len(data):
        # The line ends of the text are encoded as CRLF; those between the lines of base64 are converted by the caller.
        return "base64", base64.encodebytes(data.replace(b"\n", b"\r\n"))
    return "quoted-printable", _FROM.sub(b"=46rom=\n ", binascii.b2a_qp(data))


def _has_from(data: bytes) -> bool:
    """Whether a line begins with it; three times as quick as by the pattern."""
    return data.startswith(b"From ") or b"\nFrom " in data


def _has_long_line(data: bytes) -> bool:
    return len(data) > MAX_LINE_LENGTH and max(map(len, data.split(b"\n"))) > MAX_LINE_LENGTH


VERSION_HEADER = b"MIME-Version: 1.0\r\n"
FIXED_HEADERS = VERSION_HEADER + b"Auto-Submitted: auto-generated\r\n"


def build(
    *,
    from_name: str | None,
    from_address: str,
    to: str,
    reply_to: str | None,
    subject: str,
    html: str | None,
    text: str | None,
    attachments: Sequence[Attachment | EncodedAttachment] = (),
    message_id: str,
    date: datetime,
    unsubscribe: tuple[str, str | None] | None = None,
    author_headers: AuthorHeaders = NO_HEADERS,
) -> bytes:
    """The message with CRLF line ends, 7-bit except for addresses whose local part is not ASCII.

    The caller chooses `message_id` (with or without angle brackets), so that a retry keeps it. `date` is aware.
    `unsubscribe` is the link of List-Unsubscribe and its mail address, if any. Text and HTML bodies are alternatives;
    an attachment that the HTML refers to by `cid:` is related to the HTML, the others are mixed into the mail. A line
    break in a name, an address or the subject becomes a space. `author_headers` take the place of those with the same
    names; `Cc` also takes that of `To`.
    """
    author = author_headers
    headers = [
        identifier_header("Message-ID", message_id),
        _shared_headers(date, from_address, from_name, None if author.replace("reply-to") else reply_to),
        b"" if author.replace("to", "cc") else address_header("To", to),
        text_header("Subject", subject),
        unsubscribe_headers(*unsubscribe) if unsubscribe else b"",
        author.block,
        VERSION_HEADER if author.replace("auto-submitted") else FIXED_HEADERS,
    ]
    # Boundaries depend on the message id: the same in a retry, and unpredictable to the author of the content.
    boundary = hashlib.sha256(message_id.encode()).hexdigest()[:32]
    return b"".join([*headers, *_content(html, text, attachments, boundary)])


@lru_cache(maxsize=256)
def _shared_headers(date: datetime, from_address: str, from_name: str | None, reply_to: str | None) -> bytes:
    """The headers that are the same for all recipients of a send."""
    return b"".join(
        [
            f"Date: {format_datetime(date)}\r\n".encode(),
            address_header("From", from_address, from_name or ""),
            address_header("Reply-To", reply_to) if reply_to else b"",
        ]
    )


def _content(
    html: str | None, text: str | None, attachments: Sequence[Attachment | EncodedAttachment], boundary: str
) -> Entity:
    encoded = [item if isinstance(item, EncodedAttachment) else encode_attachment(item) for item in attachments]
    inline = [item.entity(inline=True) for item in encoded if item.is_inline_in(html)]
    others = [item.entity(inline=False) for item in encoded if not item.is_inline_in(html)]
    bodies: list[Entity] = []
    if text is not None or html is None:
        bodies.append(text_entity("plain", text or ""))
    if html is not None:
        bodies.append(multipart("related", [text_entity("html", html), *inline], boundary))
    return multipart("mixed", [multipart("alternative", bodies, boundary), *others], boundary)
