"""Reading of inbound mail: reports in all the forms that mail servers give them."""

from __future__ import annotations

from base64 import encodebytes
from binascii import b2a_qp
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.inbound.email.fields import MAX_CONTAINERS, MAX_LINES, addresses_in, parse, parse_head
from app.inbound.email.receive import is_automatic, read_reports
from app.inbound.email.report import Report, ReportKind, failure_status
from tests.support.cases import each
from tests.support.growth import MOST_GROWTH, growth
from tests.support.mail_reports import ORIGINAL, complaint, delivery_failure, plain, qmail_failure

ANN = frozenset({"ann@example.com"})
TO = "bounces+x@acme.example"


def reports(raw: bytes) -> list[Report]:
    return read_reports(parse(raw))


def test_a_failure_is_read() -> None:
    """RFC 3464: the type before the diagnostic code is not part of the reply of the other side."""
    (report,) = reports(delivery_failure(TO, "Ann@Example.com"))
    assert report == Report(ReportKind.FAILED, "5.1.1", "550 5.1.1 mailbox does not exist", ANN)


def test_a_diagnostic_without_a_type_is_read_whole() -> None:
    raw = delivery_failure(TO, "ann@example.com").replace(b"smtp; 550 5.1.1", b"550 5.1.1 no; try later:")
    assert [report.detail for report in reports(raw)] == ["550 5.1.1 no; try later: mailbox does not exist"]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("type_", [b"delivery-status", b"global-delivery-status"])
def test_line_ends_and_the_international_form_are_accepted(line_end: bytes, type_: bytes) -> None:
    """A pipe uses LF; RFC 6533 has a media type of its own."""
    raw = delivery_failure(TO, "ann@example.com").replace(b"message/delivery-status", b"message/" + type_)
    (report,) = reports(raw.replace(b"\r\n", line_end))
    assert (report.kind, report.status, report.about) == (ReportKind.FAILED, "5.1.1", ANN)


@each(
    ("action", "status", "kind"),
    [
        ("failed", "5.1.1", ReportKind.FAILED),
        ("Failed", "4.4.7", ReportKind.FAILED),
        ("delayed", "4.4.1", ReportKind.DELAYED),
        ("delivered", "2.0.0", ReportKind.ARRIVED),
        ("relayed", "2.0.0", ReportKind.ARRIVED),
        ("expanded", "2.0.0", ReportKind.ARRIVED),
        ("", "5.0.0", ReportKind.FAILED),
        ("nonsense", "4.0.0", ReportKind.DELAYED),
    ],
)
def test_the_action_decides_the_kind_of_report(action: str, status: str, kind: ReportKind) -> None:
    (report,) = reports(delivery_failure(TO, "ann@example.com", action=action, status=status))
    assert (report.kind, report.status) == (kind, status)


@each(
    ("status", "detail", "expected"),
    [
        ("5.2.2", "550 5.1.1 no", "5.2.2"),
        (None, "550 5.1.1 no", "5.1.1"),
        ("2.0.0", "452-4.2.2 full", "4.2.2"),
        (None, "421 come back", "4.0.0"),
        (None, "from 10.5.1.1 with 5501 lines", "5.0.0"),
        (None, "", "5.0.0"),
    ],
)
def test_the_status_code_of_a_failure_is_read(status: str | None, detail: str, expected: str) -> None:
    assert failure_status(status, detail) == expected


def test_of_several_recipients_failures_come_first() -> None:
    raw = delivery_failure(TO, "bob@example.com", action="delayed", status="4.4.1").replace(
        b"Diagnostic-Code",
        b"X: y\r\n\r\nFinal-Recipient: rfc822; ann@example.com\r\nAction: failed\r\nStatus: 5.1.1\r\nDiagnostic-Code",
    )
    assert [(report.kind, report.about) for report in reports(raw)] == [
        (ReportKind.FAILED, ANN),
        (ReportKind.DELAYED, frozenset({"bob@example.com"})),
    ]


def test_a_complaint_contains_the_return_path() -> None:
    (report,) = reports(complaint("abuse@acme.example", "ann@example.com", mail_from=TO))
    assert (report.kind, report.about, report.original_senders) == (ReportKind.COMPLAINT, ANN, (TO,))


def test_the_return_path_is_read_from_the_original_mail() -> None:
    """The last mail server wrote the return path into the original mail."""
    raw = delivery_failure("x@y.example", "ann@example.com", original=f"Return-Path: <{TO}>\r\n\r\nHello\r\n".encode())
    assert [report.original_senders for report in reports(raw)] == [(TO,)]


def test_the_original_mail_may_consist_of_its_header_only() -> None:
    """Providers return only the header in complaints (RFC 5965, 2)."""
    raw = complaint("abuse@acme.example", "ann@example.com").replace(
        b"Type: message/rfc822", b"Type: text/rfc822-headers"
    )
    (report,) = reports(raw.replace(ORIGINAL, f"Return-Path: <{TO}>\r\n".encode() + ORIGINAL))
    assert (report.kind, report.original_senders) == (ReportKind.COMPLAINT, (TO,))


@pytest.mark.parametrize(("encoding", "encode"), [("base64", encodebytes), ("Quoted-Printable", b2a_qp)])
def test_an_encoded_notification_is_decoded(encoding: str, encode: Callable[[bytes], bytes]) -> None:
    """RFC 3464 requires 7 bits, and some servers encode all the same."""
    head, type_, rest = delivery_failure(TO, "ann@example.com").partition(
        b"Content-Type: message/delivery-status\r\n\r\n"
    )
    machine, end, tail = rest.partition(b"\r\n--=_b")
    kind = type_.replace(b"\r\n\r\n", f"\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n".encode())
    (report,) = reports(b"".join([head, kind, encode(machine), end, tail]))
    assert report == Report(ReportKind.FAILED, "5.1.1", "550 5.1.1 mailbox does not exist", ANN)


def test_a_report_with_a_large_original_mail_is_read_quickly() -> None:
    """The fields of the report stand before the mail that it returns."""

    def returning(size: int) -> bytes:
        original = ORIGINAL + b"eA==\r\n" * (size // 6)
        return delivery_failure(TO, "ann@example.com", original=original)

    (report,) = reports(returning(16 * 1024 * 1024))
    assert (report.kind, report.about) == (ReportKind.FAILED, ANN)
    assert growth(reports, returning, 16 * 1024 * 1024) <= MOST_GROWTH


def test_notifications_in_prose_are_read() -> None:
    (report,) = reports(qmail_failure(TO, "ann@example.com"))
    assert (report.kind, report.about, report.guessed) == (ReportKind.FAILED, ANN, True)


@pytest.mark.parametrize("text", ["Thank you!", "I am away until Monday. Mail to bob@example.com failed yesterday."])
def test_a_reply_reports_nothing(text: str) -> None:
    assert reports(plain(TO, text)) == []
    assert not is_automatic(parse(plain(TO, text)))


def test_endlessly_nested_parts_are_no_report() -> None:
    lines = b"".join(b'Content-Type: multipart/mixed; boundary="%d"\n\n--%d\n' % (n, n) for n in range(3000))
    assert reports(lines) == []


@each(
    ("before", "read"),
    [
        (b"", True),
        (b"x\r\n" * (MAX_LINES - 50), True),
        (b"x\r\n" * MAX_LINES, False),
        (b"--=_b\r\nContent-Type: message/rfc822\r\n\r\nx\r\n" * (MAX_CONTAINERS - 3), True),
        (b"--=_b\r\nContent-Type: message/rfc822\r\n\r\nx\r\n" * MAX_CONTAINERS, False),
        (b"--=_b\r\nX: " + b"y" * 200_000 + b"\r\n\r\n", True),
    ],
)
def test_only_the_beginning_of_a_message_is_read(before: bytes, read: bool) -> None:
    """A report stands there; text that a stranger puts before it has bounded cost."""
    head, boundary, rest = delivery_failure(TO, "ann@example.com").partition(b"--=_b")
    assert bool(reports(head + before + boundary + rest)) is read


@each(
    ("value", "addresses"),
    [
        ("ann@example.com", ["ann@example.com"]),
        ('"Lee, Ann" <ann@example.com>, <bob@example.com>,carl@example.com', ["ann", "bob", "carl"]),
        ("(ann@example.com) undisclosed:;", ["ann@example.com"]),
        ("Ann <ann+x=y@example.com> @ a@ @b", ["ann+x=y@example.com"]),
        ("(" * 900 + "ann@example.com", ["ann@example.com"]),
        ("(" * 9000 + "ann@example.com", []),
        ("<" * 20_000 + "ann@example.com", []),
        ("", []),
    ],
)
def test_everything_in_the_form_of_an_address_is_one(value: str, addresses: list[str]) -> None:
    """Any text may surround an address."""
    expected = [address if "@" in address else f"{address}@example.com" for address in addresses]
    assert addresses_in(parse_head(f"To: {value}\r\n\r\nTo: x@y.example".encode()), ["To"]) == expected


PIECES = (
    b"\n",
    b"\n\n",
    b"--=_b\n",
    b"Content-Type: message/delivery-status\n",
    b"Status: 5.1.1\n",
    b"Action: failed\n",
)
MORE_PIECES = (
    b'Content-Type: multipart/report; boundary="=_b"\n',
    b"Final-Recipient: rfc822; ann@example.com\n",
    b"Content-Type: message/feedback-report\nContent-Transfer-Encoding: base64\n",
    b"Feedback-Type: abuse\n",
    b"Original-Mail-From: <<<,;:\n",
    b"To: =?utf-8?q?=ff?= <a@b>\n",
    b"Content-Type: text/plain; charset=nonsense\n",
    b"\xff\xfe\x00",
)


@given(st.lists(st.sampled_from((*PIECES, *MORE_PIECES)) | st.binary(max_size=20), max_size=25))
def test_no_input_fails(pieces: list[bytes]) -> None:
    """Storing the result does not fail, either: texts and addresses are cleaned."""
    message = parse(b"".join(pieces))
    is_automatic(message)
    for report in read_reports(message):
        assert "\0" not in report.detail
        report.detail.encode()
