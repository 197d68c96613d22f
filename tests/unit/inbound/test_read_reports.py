"""What an email that came back reports, in all the forms that mail servers give it."""

from __future__ import annotations

from base64 import encodebytes
from binascii import b2a_qp
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.inbound.email.delivery_status import failure_status
from app.inbound.email.fields import MAX_CONTAINERS, MAX_LINES, addresses_in, parse, parse_head
from app.inbound.email.read import is_automatic, read_reports
from app.inbound.email.report import Report, ReportKind
from tests.support.growth import MOST_GROWTH, growth
from tests.support.mail_reports import ORIGINAL, complaint, delivery_failure, plain, qmail_failure

ANN = frozenset({"ann@example.com"})
TO = "bounces+x@acme.example"


def reports(raw: bytes) -> list[Report]:
    return read_reports(parse(raw))


def test_a_failure() -> None:
    """RFC 3464: the type before the diagnostic is not part of the other side's words."""
    (found,) = reports(delivery_failure(TO, "Ann@Example.com"))
    assert found == Report(ReportKind.FAILED, "5.1.1", "550 5.1.1 mailbox does not exist", ANN)


def test_words_that_have_no_type_are_whole() -> None:
    raw = delivery_failure(TO, "ann@example.com").replace(b"smtp; 550 5.1.1", b"550 5.1.1 no; try later:")
    assert [one.detail for one in reports(raw)] == ["550 5.1.1 no; try later: mailbox does not exist"]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("type_", [b"delivery-status", b"global-delivery-status"])
def test_line_ends_and_the_international_form(line_end: bytes, type_: bytes) -> None:
    """A pipe hands LF over; RFC 6533 has a type of its own."""
    raw = delivery_failure(TO, "ann@example.com").replace(b"message/delivery-status", b"message/" + type_)
    (found,) = reports(raw.replace(b"\r\n", line_end))
    assert (found.kind, found.status, found.about) == (ReportKind.FAILED, "5.1.1", ANN)


@pytest.mark.parametrize(
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
def test_actions(action: str, status: str, kind: ReportKind) -> None:
    (found,) = reports(delivery_failure(TO, "ann@example.com", action=action, status=status))
    assert (found.kind, found.status) == (kind, status)


@pytest.mark.parametrize(
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
def test_the_code_of_a_failure(status: str | None, detail: str, expected: str) -> None:
    assert failure_status(status, detail) == expected


def test_failures_stand_first_among_several_recipients() -> None:
    raw = delivery_failure(TO, "bob@example.com", action="delayed", status="4.4.1").replace(
        b"Diagnostic-Code",
        b"X: y\r\n\r\nFinal-Recipient: rfc822; ann@example.com\r\nAction: failed\r\nStatus: 5.1.1\r\nDiagnostic-Code",
    )
    assert [(one.kind, one.about) for one in reports(raw)] == [
        (ReportKind.FAILED, ANN),
        (ReportKind.DELAYED, frozenset({"bob@example.com"})),
    ]


def test_a_complaint_hands_the_return_path_back() -> None:
    (found,) = reports(complaint("abuse@acme.example", "ann@example.com", mail_from=TO))
    assert (found.kind, found.about, found.original_senders) == (ReportKind.COMPLAINT, ANN, (TO,))


def test_the_original_tells_its_return_path() -> None:
    """As the last mail server wrote it there."""
    raw = delivery_failure("x@y.example", "ann@example.com", original=f"Return-Path: <{TO}>\r\n\r\nHello\r\n".encode())
    assert [one.original_senders for one in reports(raw)] == [(TO,)]


def test_the_original_may_be_its_headers_alone() -> None:
    """As providers return it in complaints (RFC 5965, 2)."""
    raw = complaint("abuse@acme.example", "ann@example.com").replace(
        b"Type: message/rfc822", b"Type: text/rfc822-headers"
    )
    (found,) = reports(raw.replace(ORIGINAL, f"Return-Path: <{TO}>\r\n".encode() + ORIGINAL))
    assert (found.kind, found.original_senders) == (ReportKind.COMPLAINT, (TO,))


@pytest.mark.parametrize(("encoding", "encode"), [("base64", encodebytes), ("Quoted-Printable", b2a_qp)])
def test_an_encoded_notification(encoding: str, encode: Callable[[bytes], bytes]) -> None:
    """RFC 3464 asks for 7 bits, and some servers encode all the same."""
    head, type_, rest = delivery_failure(TO, "ann@example.com").partition(
        b"Content-Type: message/delivery-status\r\n\r\n"
    )
    machine, end, tail = rest.partition(b"\r\n--=_b")
    kind = type_.replace(b"\r\n\r\n", f"\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n".encode())
    (found,) = reports(b"".join([head, kind, encode(machine), end, tail]))
    assert found == Report(ReportKind.FAILED, "5.1.1", "550 5.1.1 mailbox does not exist", ANN)


def test_a_report_that_returns_a_large_mail_is_read_at_once() -> None:
    """What it says stands before the mail that it returns."""

    def returning(size: int) -> bytes:
        original = ORIGINAL + b"eA==\r\n" * (size // 6)
        return delivery_failure(TO, "ann@example.com", original=original)

    (found,) = reports(returning(16 * 1024 * 1024))
    assert (found.kind, found.about) == (ReportKind.FAILED, ANN)
    assert growth(reports, returning, 16 * 1024 * 1024) <= MOST_GROWTH


def test_prose() -> None:
    (found,) = reports(qmail_failure(TO, "ann@example.com"))
    assert (found.kind, found.about, found.guessed) == (ReportKind.FAILED, ANN, True)


@pytest.mark.parametrize("text", ["Thank you!", "I am away until Monday. Mail to bob@example.com failed yesterday."])
def test_a_reply_reports_nothing(text: str) -> None:
    assert reports(plain(TO, text)) == []
    assert not is_automatic(parse(plain(TO, text)))


def test_what_is_nested_without_end_is_nothing() -> None:
    lines = b"".join(b'Content-Type: multipart/mixed; boundary="%d"\n\n--%d\n' % (n, n) for n in range(3000))
    assert reports(lines) == []


@pytest.mark.parametrize(
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
    """A report stands there; what a stranger puts before it costs no more than it does here."""
    head, boundary, rest = delivery_failure(TO, "ann@example.com").partition(b"--=_b")
    assert bool(reports(head + before + boundary + rest)) is read


@pytest.mark.parametrize(
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
def test_addresses_are_what_has_their_form(value: str, addresses: list[str]) -> None:
    """Whatever stands around them."""
    wanted = [one if "@" in one else f"{one}@example.com" for one in addresses]
    assert addresses_in(parse_head(f"To: {value}\r\n\r\nTo: x@y.example".encode()), ["To"]) == wanted


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
def test_whatever_comes_nothing_fails(pieces: list[bytes]) -> None:
    """Nor does it for what cannot be stored: words and addresses are clean texts."""
    message = parse(b"".join(pieces))
    is_automatic(message)
    for report in read_reports(message):
        assert "\0" not in report.detail
        report.detail.encode()
