"""Reading reports about a domain, DMARC aggregate reports and TLS reports, in the documents that mails carry. Pure."""

from __future__ import annotations

import binascii
import io
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from itertools import islice
from typing import Any, Literal
from xml.parsers.expat import ExpatError, ParserCreate

import orjson

from app.inbound.email.fields import one_line

Kind = Literal["dmarc", "tls"]

MAX_ROWS = 500
MAX_ROW_BYTES = 128 * 1024
"""Sources or failures of one report that are kept one by one; further ones are only counted."""
MAX_COUNT = 2**53
"""Messages or sessions of one row, and of all rows together."""
MAX_TEXT_LENGTH = 255


class UnreadableReport(ValueError):
    """A document that is no report, or has more than is read; the text is for the log."""


@dataclass(frozen=True, slots=True)
class ParsedReport:
    """`passed` and `failed` are messages (DMARC) or sessions (TLS); `content` has them by source or by failure."""

    kind: Kind
    domain: str
    reporter: str
    report_id: str
    begin_time: datetime
    end_time: datetime
    passed: int
    failed: int
    content: Mapping[str, Any]


class KeptRows:
    """The rows of a report that are kept, up to a number and to so many bytes as JSON; further ones are counted."""

    def __init__(self, rows: Iterable[dict[str, Any]] = ()) -> None:
        self.kept: list[dict[str, Any]] = []
        self.further = 0
        self._room = MAX_ROW_BYTES
        for row in rows:
            self.add(row)

    def add(self, row: dict[str, Any]) -> None:
        """Keeps the row, or counts it; once there is one too many, no further one is kept."""
        size = 0 if self.further else len(orjson.dumps(row)) + 1
        if self.further or len(self.kept) >= MAX_ROWS or size > self._room:
            self.further += 1
        else:
            self._room -= size
            self.kept.append(row)


def short(text: str) -> str:
    """A text of the report in a form that can be stored."""
    return one_line(text)[:MAX_TEXT_LENGTH]


def count_of(value: object) -> int:
    """A number of messages or sessions; 0 for anything else."""
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) <= 15 else 0
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT else 0


MAX_UNPACKED_BYTES = 8 * 1024 * 1024
"""Unpacked bytes of all documents of a mail together."""
MAX_MARKS = 200_000
"""Tags and attributes, or members and elements, of all of them: what reading them takes time for. A report of a large
mail server about a thousand sources has forty thousand."""
MAX_PARTS = 10
MAX_FILES = 100
"""Files of an archive, all of which are listed in memory; the first is read."""
XML_MARKS, JSON_MARKS = (b"<", b"="), (b",", b"[", b"{")
ZIP, FILE_OF_ZIP, GZIP = b"PK\x03\x04", b"PK\x01\x02", b"\x1f\x8b"
GZIP_FORMAT = 31
BOM = b"\xef\xbb\xbf"
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ZIP_ERRORS = (
    zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError, struct.error, zlib.error
)  # fmt: skip


def documents_of(message: Message) -> Iterator[bytes]:
    """The documents of the message that may be reports, unpacked. Raises `UnreadableReport`."""
    parts = (part for part in message.walk() if not part.is_multipart())
    room, marks = MAX_UNPACKED_BYTES, MAX_MARKS
    for part in islice(parts, MAX_PARTS):
        try:
            content = part.get_payload(decode=True)
        except (binascii.Error, ValueError, LookupError, TypeError, AttributeError):
            continue
        unpacked = _unpacked(content, room) if isinstance(content, bytes) else b""
        room -= len(unpacked)
        document = unpacked.removeprefix(BOM).lstrip()
        if document[:1] in (b"<", b"{"):  # others are texts for people
            marks -= sum(map(document.count, XML_MARKS if document.startswith(b"<") else JSON_MARKS))
            if room < 0 or marks < 0:
                raise UnreadableReport("it is too long")
            yield document


def _unpacked(content: bytes, room: int) -> bytes:
    """The content of a part, of which at most one byte more is unpacked than there is room for."""
    most = max(0, room) + 1
    if content.startswith(GZIP):
        return _gunzipped(content, most)
    return _unzipped(content, most) if content.startswith(ZIP) else content


def _gunzipped(content: bytes, most: int) -> bytes:
    try:
        return zlib.decompressobj(GZIP_FORMAT).decompress(content, most)
    except zlib.error as error:
        raise UnreadableReport(f"its archive is damaged: {error}") from None


def _unzipped(content: bytes, most: int) -> bytes:
    """The first file of the archive."""
    if content.count(FILE_OF_ZIP) > MAX_FILES:
        raise UnreadableReport("its archive has too many files")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            first = archive.infolist()[0]
            if first.compress_type not in COMPRESSIONS:
                raise UnreadableReport("its archive has an unusual compression")
            with archive.open(first) as file:
                return file.read(most)
    except UnreadableReport:
        raise
    except (*ZIP_ERRORS, IndexError) as error:
        raise UnreadableReport(f"its archive is damaged: {error}") from None


MAX_DEPTH = 12
MAX_TEXT = 1000
"""Characters of one element."""
MAX_VALUES = 20
"""Texts of one element name in one record."""
MAX_NAMES = 100
"""Different elements of one record."""
MAX_NAME = 100
"""Characters of the name of an element."""
MAX_TIMESTAMP = 4_102_444_800
"""Seconds of the year 2100."""
ROOT, RECORD = "feedback", "record"
POLICY_ATTRIBUTES = ("p", "sp", "pct", "adkim", "aspf")

TextsByPath = dict[str, list[str]]
"""Path of an element below the root or the record -> the texts of those elements."""


def read_dmarc(document: bytes) -> ParsedReport:
    """The report of an XML document. Raises `UnreadableReport`."""
    reader = _Reader()
    try:
        reader.read(document)
    except (ExpatError, ValueError, LookupError) as error:
        raise UnreadableReport(f"it is no DMARC report: {error}") from None
    head = reader.head
    domain = _first(head, "policy_published/domain").lower().rstrip(".")
    if not domain or not _first(head, "report_metadata/report_id"):
        raise UnreadableReport("it is no DMARC report: it names no domain, or has no id")
    return ParsedReport(
        "dmarc",
        domain,
        short(_first(head, "report_metadata/org_name")),
        short(_first(head, "report_metadata/report_id")),
        _moment_of_seconds(_first(head, "report_metadata/date_range/begin")),
        _moment_of_seconds(_first(head, "report_metadata/date_range/end")),
        min(reader.passed, MAX_COUNT),
        min(reader.failed, MAX_COUNT),
        {
            "policy": {
                name: short(text) for name in POLICY_ATTRIBUTES if (text := _first(head, f"policy_published/{name}"))
            },
            "sources": reader.rows.kept,
            "further_sources": reader.rows.further,
        },
    )


class _Reader:
    """Reads the document element by element; keeps the values of one record at a time."""

    def __init__(self) -> None:
        self.head: TextsByPath = {}
        self.rows = KeptRows()
        self.passed = self.failed = 0
        self._record: TextsByPath = {}
        self._path: list[str] = []
        self._text: list[str] = []
        self._length = 0

    def read(self, document: bytes) -> None:
        parser = ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._refuse
        parser.EntityDeclHandler = self._refuse
        parser.Parse(document, True)

    def _refuse(self, *_: object) -> None:
        raise UnreadableReport("it has a document type")

    def _start(self, name: str, _attributes: Mapping[str, str]) -> None:
        self._path.append(name[:MAX_NAME].rpartition(":")[2].lower())
        if len(self._path) > MAX_DEPTH or self._path[0] != ROOT:
            raise UnreadableReport("it has another form")
        if self._path == [ROOT, RECORD]:
            self._record = {}
        self._text, self._length = [], 0

    def _characters(self, text: str) -> None:
        if self._length < MAX_TEXT:
            self._text.append(text[: MAX_TEXT - self._length])
            self._length += len(text)

    def _end(self, _name: str) -> None:
        path = self._path
        if path == [ROOT, RECORD]:
            self._add_record()
        elif self._text:
            is_of_record = path[1:2] == [RECORD]
            values = self._record if is_of_record else self.head
            key = "/".join(path[2 if is_of_record else 1 :])
            if key in values or len(values) < MAX_NAMES:
                texts = values.setdefault(key, [])
                texts += ["".join(self._text).strip()][: MAX_VALUES - len(texts)]
        path.pop()
        self._text = []

    def _add_record(self) -> None:
        row = _row(self._record)
        if "pass" in (row["dkim"], row["spf"]):
            self.passed += row["count"]
        else:
            self.failed += row["count"]
        self.rows.add(row)


def _row(record: TextsByPath) -> dict[str, Any]:
    """The row of a source of mail under the domain, with the results of its mails."""
    evaluated = "row/policy_evaluated"
    return {
        "source_ip": short(_first(record, "row/source_ip")),
        "count": count_of(_first(record, "row/count")),
        "disposition": short(_first(record, f"{evaluated}/disposition")),
        "dkim": short(_first(record, f"{evaluated}/dkim")).lower(),
        "spf": short(_first(record, f"{evaluated}/spf")).lower(),
        "header_from": short(_first(record, "identifiers/header_from")),
        "envelope_from": short(_first(record, "identifiers/envelope_from")),
        "dkim_domains": [short(text) for text in record.get("auth_results/dkim/domain", [])],
        "spf_domain": short(_first(record, "auth_results/spf/domain")),
    }


def _first(values: TextsByPath, path: str) -> str:
    return (values.get(path) or [""])[0]


def _moment_of_seconds(text: str) -> datetime:
    return datetime.fromtimestamp(min(count_of(text), MAX_TIMESTAMP), UTC)


MAX_BYTES = 2 * 1024 * 1024
"""Bytes of the JSON, all of which is parsed at once."""
MAX_POLICIES = 50
SUCCEEDED, FAILED = "total-successful-session-count", "total-failure-session-count"


def read_tls(document: bytes) -> ParsedReport:
    """The report of a JSON document. Raises `UnreadableReport`."""
    if len(document) > MAX_BYTES:
        raise UnreadableReport("it is too long")
    try:
        report = orjson.loads(document)
    except orjson.JSONDecodeError as error:
        raise UnreadableReport(f"it is no TLS report: {error.msg}") from None
    report = _object(report)
    policies = [_object(entry) for entry in _list(report.get("policies"))]
    names = [_text(_object(policy.get("policy")), "policy-domain").lower().rstrip(".") for policy in policies]
    if not names or not names[0] or not _text(report, "report-id"):
        raise UnreadableReport("it is no TLS report: it names no domain, or has no id")
    period = _object(report.get("date-range"))
    summaries = [_object(policy.get("summary")) for policy in policies]
    details = (_object(detail) for policy in policies for detail in _list(policy.get("failure-details")))
    failures = KeptRows(map(_failure, details))
    return ParsedReport(
        "tls",
        names[0],
        short(_text(report, "organization-name")),
        short(_text(report, "report-id")),
        _moment_of_iso(_text(period, "start-datetime")),
        _moment_of_iso(_text(period, "end-datetime")),
        min(sum(count_of(summary.get(SUCCEEDED)) for summary in summaries), MAX_COUNT),
        min(sum(count_of(summary.get(FAILED)) for summary in summaries), MAX_COUNT),
        {
            "policies": [_policy(policy) for policy in policies[:MAX_POLICIES]],
            "failures": failures.kept,
            "further_failures": failures.further,
        },
    )


def _policy(policy: dict[str, Any]) -> dict[str, Any]:
    described, summary = _object(policy.get("policy")), _object(policy.get("summary"))
    return {
        "type": short(_text(described, "policy-type")),
        "domain": short(_text(described, "policy-domain")),
        "passed": count_of(summary.get(SUCCEEDED)),
        "failed": count_of(summary.get(FAILED)),
    }


def _failure(failure: dict[str, Any]) -> dict[str, Any]:
    return {
        "result": short(_text(failure, "result-type")),
        "count": count_of(failure.get("failed-session-count")),
        "source_ip": short(_text(failure, "sending-mta-ip")),
        "receiving_mx": short(_text(failure, "receiving-mx-hostname")),
        "reason": short(_text(failure, "failure-reason-code")),
    }


def _moment_of_iso(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text[:40])
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).replace(microsecond=0)
    except (ValueError, OverflowError):
        return datetime.fromtimestamp(0, UTC)


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
