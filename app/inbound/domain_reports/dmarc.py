"""DMARC aggregate reports (RFC 7489, appendix C). Pure.

The parser knows no entities and refuses a document type, so that a document is never larger than its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from xml.parsers.expat import ExpatError, ParserCreate

from app.inbound.domain_reports.parsed import ParsedReport, Rows, UnreadableReport, count_of, short

MAX_DEPTH = 12
MAX_TEXT = 1000
"""Characters of one element."""
MAX_VALUES = 20
"""Of one name in one record."""
MAX_NAMES = 100
"""Different elements of one record."""
MAX_NAME = 100
"""Characters of the name of an element."""
LATEST = 4_102_444_800
"""Seconds of the year 2100."""
ROOT, RECORD = "feedback", "record"
POLICY = ("p", "sp", "pct", "adkim", "aspf")

Values = dict[str, list[str]]
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
        _moment(_first(head, "report_metadata/date_range/begin")),
        _moment(_first(head, "report_metadata/date_range/end")),
        reader.passed,
        reader.failed,
        {
            "policy": {name: short(text) for name in POLICY if (text := _first(head, f"policy_published/{name}"))},
            "sources": reader.rows.kept,
            "further_sources": reader.rows.further,
        },
    )


class _Reader:
    """Reads the document element by element; keeps the values of one record at a time."""

    def __init__(self) -> None:
        self.head: Values = {}
        self.rows = Rows()
        self.passed = self.failed = 0
        self._record: Values = {}
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


def _row(record: Values) -> dict[str, Any]:
    """One source of mail under the domain, with the results of its mails."""
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


def _first(values: Values, path: str) -> str:
    return (values.get(path) or [""])[0]


def _moment(text: str) -> datetime:
    return datetime.fromtimestamp(min(count_of(text), LATEST), UTC)
