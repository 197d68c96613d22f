"""Reading reports about a domain, whoever wrote them (docs/domain-reports.md)."""

from __future__ import annotations

import base64
import gzip
import io
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime

import orjson
import pytest

from app.inbound.domain_reports import documents
from app.inbound.domain_reports.documents import MAX_ROW_BYTES, MAX_ROWS, ParsedReport, UnreadableReport
from app.inbound.domain_reports.take import read_reports_about_domain
from app.inbound.email.fields import MAX_LARGE_PARTS
from tests.support.cases import each
from tests.support.mail_reports import dmarc_report, plain, tls_report, with_attachment, zipped

TO = "reports+abc@bounces.example"
GOOD = dmarc_report("acme.example", ("192.0.2.1", 5, "pass", "fail"), ("198.51.100.9", 3, "fail", "fail"))


def read(content: bytes, type_: str = "application/octet-stream") -> ParsedReport:
    (report,) = read_reports_about_domain(with_attachment(TO, content, type_))
    return report


@pytest.mark.parametrize("content", [GOOD, gzip.compress(GOOD), zipped(GOOD), b"\xef\xbb\xbf" + GOOD], ids=len)
def test_a_dmarc_report_is_read_in_every_form_in_which_it_comes(content: bytes) -> None:
    report = read(content)
    assert (report.kind, report.domain, report.reporter, report.report_id) == (
        "dmarc",
        "acme.example",
        "mailbox.example",
        "r-1",
    )
    assert (report.begin_time, report.end_time) == (
        datetime(2026, 1, 31, tzinfo=UTC),
        datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC),
    )
    assert (report.passed, report.failed) == (5, 3), "one of the two results is enough"
    assert report.content["policy"] == {"p": "none", "pct": "100", "adkim": "r", "aspf": "r"}
    assert report.content["sources"][1] == {
        "source_ip": "198.51.100.9",
        "count": 3,
        "disposition": "none",
        "dkim": "fail",
        "spf": "fail",
        "header_from": "acme.example",
        "envelope_from": "",
        "dkim_domains": ["acme.example"],
        "spf_domain": "bounces.example",
    }


def test_a_tls_report_is_read() -> None:
    report = read(gzip.compress(tls_report("acme.example")), "application/tlsrpt+gzip")
    assert (report.kind, report.domain, report.reporter) == ("tls", "acme.example", "Mailbox Inc.")
    assert (report.begin_time, report.passed, report.failed) == (datetime(2026, 1, 31, tzinfo=UTC), 10, 2)
    assert report.content["failures"] == [
        {
            "result": "certificate-expired",
            "count": 2,
            "source_ip": "192.0.2.7",
            "receiving_mx": "mx.acme.example",
            "reason": "",
        }
    ]


def test_further_sources_are_only_counted() -> None:
    records = [("192.0.2.1", 2, "pass", "pass")] * (MAX_ROWS + 7)
    report = read(gzip.compress(dmarc_report("acme.example", *records)))
    assert (len(report.content["sources"]), report.content["further_sources"]) == (MAX_ROWS, 7)
    assert report.passed == 2 * (MAX_ROWS + 7)


ENTITIES = b'<?xml version="1.0"?><!DOCTYPE f [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><feedback>&b;</feedback>'


def stored_under_lzma() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("report.xml", GOOD)
    return file.getvalue()


@each(
    ("content", "reason"),
    [
        (ENTITIES, "document type"),
        (b'<!DOCTYPE f SYSTEM "http://127.0.0.1/x"><feedback/>', "document type"),
        (b"<feedback>", "no DMARC report"),
        (b"<feedback/>", "names no domain"),
        (b"<html><p>Hello</p></html>", "another form"),
        (b"<feedback>" + b"<a>" * 20, "another form"),
        (b'<?xml version="1.0" encoding="nonsense"?><feedback/>', "no DMARC report"),
        (b"{", "no TLS report"),
        (b'{"policies": 5}', "names no domain"),
        (b"[" * 9 + b"{", None),
        (gzip.compress(GOOD)[:-30] + b"\xff" * 30, "damaged|no DMARC"),
        (zipped(GOOD)[:-20], "damaged"),
        (b"PK\x03\x04", "damaged"),
        (stored_under_lzma(), "unusual compression"),
    ],
)
def test_what_is_no_report_is_refused(content: bytes, reason: str | None) -> None:
    if reason is None:
        assert read_reports_about_domain(with_attachment(TO, content)) == []
        return
    with pytest.raises(UnreadableReport, match=reason):
        read_reports_about_domain(with_attachment(TO, content))


@pytest.mark.parametrize("pack", [gzip.compress, zipped])
def test_an_archive_is_unpacked_up_to_a_limit(pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_UNPACKED_BYTES", 100_000)
    packed = pack(b"<feedback>" + b" " * 200_000)
    assert len(packed) < 1000
    with pytest.raises(UnreadableReport, match="too long"):
        read_reports_about_domain(with_attachment(TO, packed))


def gzipped_parts(*documents: bytes) -> bytes:
    """A mail with an attachment for each."""
    head = b'Content-Type: multipart/mixed; boundary="b"\r\n\r\n'
    part = b"--b\r\nContent-Type: application/gzip\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    return head + b"".join(part + base64.encodebytes(gzip.compress(document)) for document in documents) + b"--b--\r\n"


def test_all_documents_of_a_mail_are_unpacked_up_to_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_UNPACKED_BYTES", 300_000)
    long = GOOD + b" " * 100_000
    assert len(read_reports_about_domain(gzipped_parts(long, long))) == 2
    with pytest.raises(UnreadableReport, match="too long"):
        read_reports_about_domain(gzipped_parts(long, long, long))


ELEMENTS = b"<a/>", b"<record></record>", b"<!---->", b"<?a?>", b"<a b='' c='' d=''/>"
TLS = b'{"report-id": "1", "policies": [{"policy": {"policy-domain": "acme.example"}, "failure-details": ['


@each(
    "document",
    [
        *(GOOD.replace(b"</feedback>", element * 200_001 + b"</feedback>") for element in ELEMENTS),
        GOOD.replace(
            b"</feedback>", b"<a " + b"".join(b"a%d='' " % number for number in range(200_001)) + b"/></feedback>"
        ),
        TLS + b"{}," * 100_000 + b"{}]}]}",
        TLS + b"[" * 200_001,
    ],
)
def test_more_elements_than_are_read_are_counted_before_they_are_parsed(document: bytes) -> None:
    """One mail of 114 KB took 18 seconds, all of them for elements that a report does not have."""
    with pytest.raises(UnreadableReport, match="too long"):
        read_reports_about_domain(gzipped_parts(document[: len(document) // 2], document))


@each(("further", "read"), [(MAX_LARGE_PARTS - 2, True), (MAX_LARGE_PARTS - 1, False)])
def test_a_mail_of_very_many_parts_is_not_read(further: int, read: bool) -> None:
    """The mail is a part, too. One of 350 KB can have 50,000, which took two seconds."""
    mail = gzipped_parts(GOOD).replace(b"--b--\r\n", b"--b\r\n\r\n" * further)
    assert bool(read_reports_about_domain(mail)) is read


def test_an_archive_of_very_many_files_is_not_listed() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(101):
            archive.writestr(f"{number}.xml", GOOD)
    with pytest.raises(UnreadableReport, match="too many files"):
        read_reports_about_domain(with_attachment(TO, file.getvalue()))


def test_as_many_bytes_of_sources_are_kept_as_a_report_may_have() -> None:
    """Each with texts of the greatest length: 500 of them would be three megabytes."""
    long = b"x" * 300
    domains = b"".join(b"<dkim><domain>" + long + b"</domain></dkim>" for _ in range(20))
    record = b"<record><row><count>2</count></row><auth_results>" + domains + b"</auth_results></record>"
    report = read(gzip.compress(GOOD.replace(b"</feedback>", record * 400 + b"</feedback>")))
    assert len(orjson.dumps(report.content)) < MAX_ROW_BYTES + 1000
    assert len(report.content["sources"]) + report.content["further_sources"] == 402
    assert report.failed == 3 + 2 * 400


def test_html_for_people_does_not_hide_the_report() -> None:
    assert [
        report.domain for report in read_reports_about_domain(gzipped_parts(b"<html><p>Hello</p></html>", GOOD))
    ] == ["acme.example"]


def test_an_ordinary_mail_has_no_report() -> None:
    assert read_reports_about_domain(plain(TO)) == []
