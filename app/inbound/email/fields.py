"""Getting at the header fields and machine-readable parts of emails that may be malformed in any way. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from email import message_from_bytes, policy
from email.errors import MessageError
from email.message import Message
from email.parser import HeaderParser
from email.utils import getaddresses

MOST_READ = 256 * 1024
"""Bytes of a message that are looked at. Reports stand before the mail that they return, however large that is."""
MOST_FIELDS = 50
LONGEST_FIELD = 10_000
LONGEST_WORDS = 1000
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")
_SPACE = re.compile(r"[\x00-\x20\x7f]+")


def parse(raw: bytes) -> Message:
    """The message; one that is nested beyond all measure counts as empty.

    The parser's older policy is used: it hands malformed headers out as they are, where the newer one may fail.
    """
    try:
        return message_from_bytes(raw[:MOST_READ], policy=policy.compat32)
    except (RecursionError, MessageError, ValueError, LookupError):
        return Message()


def field(message: Message, name: str) -> str:
    """The first field of that name in one line, empty where there is none."""
    return one_line(str(message.get(name, "")))


def one_line(text: str) -> str:
    """Words of others in a form that databases and JSON can hold, and not long."""
    return _SPACE.sub(" ", text[:LONGEST_FIELD]).encode("utf-8", "replace").decode().strip()[:LONGEST_WORDS]


def addresses_in(message: Message, names: Iterable[str]) -> list[str]:
    """The addresses in all fields of these names, in the order of the names."""
    values = [str(value)[:LONGEST_FIELD] for name in names for value in message.get_all(name, [])[:MOST_FIELDS]]
    return [address for _, address in getaddresses(values) if address]


def parts_of_type(message: Message, *types: str) -> Iterator[Message]:
    """The parts of these types, wherever they are."""
    return (part for part in message.walk() if part.get_content_type() in types)


def field_blocks(part: Message) -> list[Message]:
    """The groups of fields of a machine-readable part, which blank lines set apart (RFC 3464, 2.1)."""
    blocks = _BLANK_LINES.split(_text(part).replace("\r\n", "\n").strip())
    return [HeaderParser(policy=policy.compat32).parsestr(block.lstrip()) for block in blocks]


def headers_of(part: Message) -> Message:
    """The header fields of a mail that is attached, whole or without its body."""
    payload = part.get_payload()
    if isinstance(payload, list):
        return payload[0] if payload and isinstance(payload[0], Message) else Message()
    return HeaderParser(policy=policy.compat32).parsestr(_text(part))


def _text(part: Message) -> str:
    """The library takes such a part for a message, or for one message per group of fields, and decodes none of it."""
    payload = part.get_payload()
    if isinstance(payload, list):
        text = "\n\n".join(one.as_string() for one in payload if isinstance(one, Message))
        bare = Message(policy=policy.compat32)
        bare["Content-Transfer-Encoding"] = field(part, "Content-Transfer-Encoding")
        bare.set_payload(text)
        part = bare
    decoded = part.get_payload(decode=True)
    return decoded.decode("utf-8", "replace") if isinstance(decoded, bytes) else ""
