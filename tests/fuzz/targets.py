"""What is fuzzed: every reader of the table in tests/scaling, and those that read bytes or whole files.

A target may refuse its input in the ways that its callers expect; anything else that it raises is a fault.
"""

from __future__ import annotations

import itertools
import re
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.inbound.domain_reports.documents import UnreadableReport
from app.inbound.domain_reports.take import read_reports_about_domain
from app.inbound.email.fields import addresses_in, parse, parse_head
from app.inbound.email.receive import RECIPIENT_FIELDS, find_signed_recipient, is_automatic, read_reports
from app.seed.errors import SeedError
from app.seed.nouns import checked_file
from app.seed.read import read_file
from app.transports.sms.incoming import IncompleteMessage, read_deliver_sm
from app.transports.sms.smpp_client import CONNECTION_ERRORS, SmppClient, UnreadablePdu
from app.transports.sms.smpp_url import parse_smpp_url
from tests.scaling.files import read_csv
from tests.scaling.inbound import FIELDS, HEAD, INBOUND, MULTIPART, PARTS, STATUSES
from tests.scaling.reader import KIB, Reader
from tests.scaling.requests import IN_REQUESTS
from tests.scaling.sends import IN_SENDS
from tests.scaling.submission import SUBMISSION

MANY, FEW = 1_000_000, 100_000
SHORT = 24
"""Characters of a first input."""
LONGEST = 4096
"""Maximum length of an input in bytes. Targets that take longer texts are tried with repeated ones afterwards
(`tests/fuzz/growth.py`)."""
SEED_WORDS = (
    "accounts:\n",
    "- ",
    "  ",
    "name: ",
    "a\n",
    "lists:\n",
    "contacts:\n",
    "{",
    "}",
    "[",
    "]",
    "&a ",
    "*a",
    "<<: ",
)
SEED = b"accounts:\n- name: Acme\n  lists:\n  - name: People\n    contacts:\n    - email: ann@example.com\n"
PDUS = {"deliver_sm": 5, "submit_sm_resp": 0x80000004, "enquire_link": 0x15, "unbind": 6, "generic_nack": 0x80000000}
CSV = b"email,name\n"
CSV_WORDS = (
    b'"',
    b",",
    b";",
    b"\n",
    b"\r",
    b'""',
    b"sep=;\n",
    b"\xe9",
    b"\xc3\xa9",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\0",
)
RECEIPT = b"id:1 stat:DELIVRD"
DELIVER = b"\0\1\1" + b"61400000000\0\1\1" + b"61411111111\0\4" + bytes(8) + bytes([len(RECEIPT)]) + RECEIPT
JSON_WORDS = ("{", "}", "[", "]", '"', ":", ",", "null", "true", "1", "-1e9", "\\u0000", '"email"', '"recipients"')


@dataclass(frozen=True)
class Target:
    """A function of bytes, the words that have a meaning for it, and first inputs."""

    name: str
    read: Callable[[bytes], object]
    words: tuple[bytes, ...]
    seeds: tuple[bytes, ...]
    inputs: int = FEW
    """How many a whole run tries."""
    largest: int = 64 * KIB
    """Length in bytes of the longest text in which growth is looked for."""

    @property
    def key(self) -> str:
        """The name of the target on the command line and of its folder."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


def targets() -> dict[str, Target]:
    """All of them by key, those with the most inputs first."""
    all_targets = [*_file_targets(), *map(_reader_target, (*IN_REQUESTS, *IN_SENDS, *INBOUND, *SUBMISSION))]
    by_key = {target.key: target for target in sorted(all_targets, key=lambda target: -target.inputs)}
    assert len(by_key) == len(all_targets), "two targets have the same name"
    return by_key


# ---------------------------------------------------------------------------------------------- the table of readers

PROMISED = {"a template", "invalid markup", "conditions", "a query", "parts", "a delivery status"}
"""Wildcards, conditionals, queries, delivery reports and complaints."""
PROMISED_KINDS = ("a filter of ", "the operator ")


def _reader_target(reader: Reader) -> Target:
    def read(data: bytes) -> object:
        return reader.read(reader.head + data.decode("utf-8", "replace") + reader.tail)

    words = reader.words or JSON_WORDS
    seeds = [make(SHORT) for _, make in itertools.islice(reader.texts(), 40)]
    bare = [text.removeprefix(reader.head).removesuffix(reader.tail) for text in seeds]
    inputs = MANY if reader.name in PROMISED or reader.name.startswith(PROMISED_KINDS) else FEW
    return Target(reader.name, read, _as_bytes(words), _as_bytes(bare), inputs, min(reader.largest, 64 * KIB))


def _as_bytes(texts: tuple[str, ...] | list[str]) -> tuple[bytes, ...]:
    return tuple(text.encode() for text in texts)


# ---------------------------------------------------------------------------------------------- bytes and files


def _file_targets() -> Iterator[Target]:
    mails = tuple(
        text.encode() for text in (HEAD, MULTIPART, MULTIPART + "".join(PARTS), MULTIPART + "".join(STATUSES))
    )
    yield Target("a mail of bytes", _read_mail, _as_bytes((*FIELDS, *PARTS, *STATUSES)), mails, MANY)
    yield Target("a PDU", _read_pdu, (b"id:", b"stat:", b"DELIVRD", b"\0", b"\4\x24", b"\x00\x1e"), _pdus(), MANY)
    yield Target("a CSV file", lambda data: read_csv(CSV + data), CSV_WORDS, (b"ann@example.com,Ann\n",), MANY)
    yield Target("a seed file", SeedFile().read, _as_bytes(SEED_WORDS), (SEED, b"{}", b"accounts: []"), MANY)


def _read_mail(data: bytes) -> None:
    """All that happens to an inbound mail until it is known whom it concerns."""
    head = parse_head(data)
    is_automatic(head)
    find_signed_recipient(("k" * 32,), addresses_in(head, RECIPIENT_FIELDS))
    read_reports(parse(data))
    with suppress(UnreadableReport):
        read_reports_about_domain(data)


class ReceivingSocket:
    """A socket from which these bytes come, and then the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def recv(self, count: int) -> bytes:
        """Returns at most `count` of the bytes."""
        taken, self._data = self._data[:count], self._data[count:]
        return taken


def _pdus() -> tuple[bytes, ...]:
    return tuple(
        struct.pack(">3L", command, 0, 1) + (DELIVER if command == PDUS["deliver_sm"] else b"a\0")
        for command in PDUS.values()
    )


def _read_pdu(data: bytes) -> None:
    """The input is a PDU without its length, so that every change of it is read as a whole."""
    client: Any = SmppClient(parse_smpp_url("smpp://a:b@gateway.example"), None, None)
    client._socket = ReceivingSocket(struct.pack(">L", len(data) + 4) + data)
    try:
        pdu = client.read_pdu()
    except (UnreadablePdu, *CONNECTION_ERRORS):
        return
    if pdu.command == "deliver_sm":
        with suppress(IncompleteMessage):
            read_deliver_sm(pdu)


class SeedFile:
    """A file that is written anew for each input."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / "seed.yaml"

    def read(self, data: bytes) -> None:
        """Reads the syntax and the shape of a seed file."""
        self._path.write_bytes(data)
        with suppress(SeedError):
            checked_file(read_file(self._path, {}))
