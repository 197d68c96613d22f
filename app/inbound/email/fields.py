"""Header fields and machine-readable parts of emails that may be malformed in any way. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from email import message_from_bytes, policy
from email.errors import MessageError
from email.message import Message
from email.parser import HeaderParser
from email.policy import Policy
from itertools import count, islice

MAX_BYTES_READ = 256 * 1024
"""Bytes of a message that are read. Reports come before the mail that they return, however large that is."""
MAX_LINES = 4000
"""Lines of a message that are read: header fields, parts and groups of fields take one each."""
MAX_LINE_LENGTH = 1000
"""Bytes of a line that are read: a longer one is no valid mail (RFC 5322, 2.1.1)."""
MAX_LARGE_BYTES = 4 * 1024 * 1024
MAX_LARGE_LINES = 100_000
"""Bytes and lines of a message whose attachment is read, too."""
MAX_LARGE_PARTS = 100
"""Parts of such a message: each takes time, however short it is."""
MAX_CONTAINERS = 50
"""Parts that contain others: if nested, each makes parsing the next one more expensive."""
MAX_FIELDS = 50
MAX_FIELD_LENGTH = 10_000
MAX_TEXT_LENGTH = 1000
_LINES = re.compile(rb"(?:[^\r\n]*+(?:\r\n|\r|\n)){0,%d}+[^\r\n]*+" % MAX_LINES)
_LARGE_LINES = re.compile(rb"(?:[^\r\n]*+(?:\r\n|\r|\n)){0,%d}+[^\r\n]*+" % MAX_LARGE_LINES)
_LONG_LINE = re.compile(rb"([^\r\n]{%d})[^\r\n]+" % MAX_LINE_LENGTH)
_CONTAINER = re.compile(rb"^content-type:\s*(?:multipart|message)/", re.IGNORECASE | re.MULTILINE)
_END_OF_HEAD = re.compile(rb"(?>\r\n|\r|\n)(?=[\r\n])")
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")
_SPACE = re.compile(r"[\x00-\x20\x7f]+")
_NOT_IN_ADDRESSES = r"\s\x00-\x1f\x7f<>()\[\],;:\\\"@"
# The lookbehind lets an address begin only at the beginning of a word, so each word is read once.
_ADDRESS = re.compile(rf"(?<![^{_NOT_IN_ADDRESSES}])[^{_NOT_IN_ADDRESSES}]++@[^{_NOT_IN_ADDRESSES}]++")


class _ShortFieldsPolicy(policy.Compat32):
    """The parser's older policy, which returns malformed fields as they are, where the newer ones may fail. Fields are
    cut: the library is slow at parsing some of their contents, such as parameters of a type."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[:MAX_FIELD_LENGTH]


_POLICY = _ShortFieldsPolicy()


def parse(raw: bytes) -> Message:
    """The part of the message that is read; one that is nested too deeply counts as empty."""
    return _parsed(_LINES.match(raw[:MAX_BYTES_READ]), _POLICY)


def parse_large(raw: bytes) -> Message:
    """Parses a message of any size, with its attachments; one of too many parts counts as empty."""
    numbers = count(1)

    def new_part(policy: Policy[Message]) -> Message:
        if next(numbers) > MAX_LARGE_PARTS:
            raise MessageError(f"more than {MAX_LARGE_PARTS} parts")
        return Message(policy)

    return _parsed(_LARGE_LINES.match(raw[:MAX_LARGE_BYTES]), _POLICY.clone(message_factory=new_part))


def _parsed(lines: re.Match[bytes] | None, parsing: policy.Compat32) -> Message:
    try:
        return message_from_bytes(_beginning(lines[0] if lines else b""), policy=parsing)
    except (RecursionError, MessageError, ValueError, LookupError):
        return Message()


def _beginning(lines: bytes) -> bytes:
    """The part of these lines that is read."""
    read = _LONG_LINE.sub(rb"\1", lines)
    further = next(islice(_CONTAINER.finditer(read), MAX_CONTAINERS, None), None)
    return read[: further.start()] if further else read


def parse_head(raw: bytes) -> Message:
    """The header fields of the message alone, which are enough to find its recipient, at little cost."""
    read = raw[:MAX_BYTES_READ]
    end = _END_OF_HEAD.search(read)
    return parse(read[: end.end()] if end else read)


def field(message: Message, name: str) -> str:
    """The first field of that name in one line, empty if there is none."""
    return one_line(str(message.get(name, "")))


def one_line(text: str) -> str:
    """The text in a form that databases and JSON can store, truncated."""
    return _SPACE.sub(" ", text[:MAX_FIELD_LENGTH]).encode("utf-8", "replace").decode().strip()[:MAX_TEXT_LENGTH]


def addresses_in(message: Message, names: Iterable[str]) -> list[str]:
    """The addresses in all fields of these names, in the order of the names: anything in the form of one, in brackets
    or without. The rest of the grammar of such fields is not needed."""
    values = [str(value)[:MAX_FIELD_LENGTH] for name in names for value in message.get_all(name, [])[:MAX_FIELDS]]
    return [address for value in values for address in _ADDRESS.findall(value)]


def parts_of_type(message: Message, *types: str) -> Iterator[Message]:
    """The parts of these types, wherever they are."""
    return (part for part in message.walk() if part.get_content_type() in types)


def field_blocks(part: Message) -> list[Message]:
    """The groups of fields of a machine-readable part, separated by blank lines (RFC 3464, 2.1)."""
    blocks = _BLANK_LINES.split(_text(part).replace("\r\n", "\n").strip())
    return [HeaderParser(policy=_POLICY).parsestr(block.lstrip()) for block in blocks]


def headers_of(part: Message) -> Message:
    """The header fields of an attached mail, with or without its body."""
    payload = part.get_payload()
    if isinstance(payload, list):
        return payload[0] if payload and isinstance(payload[0], Message) else Message()
    return HeaderParser(policy=_POLICY).parsestr(_text(part))


def _text(part: Message) -> str:
    """The library parses such a part as a message, or as one message per group of fields, and decodes nothing."""
    payload = part.get_payload()
    if isinstance(payload, list):
        text = "\n\n".join(message.as_string() for message in payload if isinstance(message, Message))
        bare = Message(policy=_POLICY)
        bare["Content-Transfer-Encoding"] = field(part, "Content-Transfer-Encoding")
        bare.set_payload(text)
        part = bare
    decoded = part.get_payload(decode=True)
    return decoded.decode("utf-8", "replace") if isinstance(decoded, bytes) else ""
