"""Strangers at the port for inbound mail, and in the reports about domains that come by it (docs/inbound.md#limits).
Meanwhile the mail of a victim is accepted, the process keeps its memory, and the database its size."""

from __future__ import annotations

import gzip
import smtplib
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import orjson
from sqlalchemy import select

from app.db.models import Account, Domain, DomainReport
from app.inbound.domain_reports.address import report_address
from app.inbound.domain_reports.take import MAX_NEW_BYTES
from tests.attack.stage import ENOUGH, Stage
from tests.attack.tally import Case, case
from tests.support.mail_reports import delivery_failure, dmarc_report, with_attachment

MEGABYTE = 1 << 20
MOST_GROWTH = 100
"""Megabytes of the process: what its documented bounds let all sessions keep."""
LISTENER = r"jobs\.inbound"
TO = "postmaster@example.org"
BEGINNING = f"EHLO a\r\nMAIL FROM:<>\r\nRCPT TO:<{TO}>\r\nDATA\r\n".encode()
PIECES = {
    "a mail without an end": (BEGINNING, b"x\r\n" * (MEGABYTE // 3)),
    "a line without an end": (BEGINNING, b"x" * MEGABYTE),
    "empty lines": (BEGINNING, b"\r\n" * (MEGABYTE // 2)),
    "a command without an end": (b"", b"x" * MEGABYTE),
    "an address without an end": (b"EHLO a\r\nMAIL FROM:<", b"x" * MEGABYTE),
    "encryption that there is not": (b"EHLO a\r\nSTARTTLS\r\n", b"\x16\x03\x01" * (MEGABYTE // 3)),
    "a login that there is not": (b"EHLO a\r\nAUTH LOGIN\r\n", b"x" * MEGABYTE),
    "commands that are none": (b"", b"\r\n" * (MEGABYTE // 2)),
}
"""What a session begins with, and what it sends again and again."""


def attack(on: Stage) -> Iterator[Case]:
    """Each kind by itself, and the process at the end."""
    yield case("mail of others", _arrives(on), "before anything")
    pids, size = on.service.pids(LISTENER), _memory(on)
    for name, (beginning, piece) in PIECES.items():
        with ExitStack() as kept:
            for _ in range(8 if on.short else 40):
                link = kept.enter_context(_connected(on))
                with suppress(OSError):
                    link.sendall(beginning + piece * 20)
            yield case("mail of others", _arrives(on), name)
            grown = _memory(on) - size
            yield case("memory", grown < MOST_GROWTH, f"{name}: the process has grown by {grown} MB")
    yield from silence(on)
    yield from reports(on)
    grown = _memory(on) - size
    yield case("memory", grown < MOST_GROWTH, f"the process has grown by {grown} MB")
    yield case("mail of others", on.service.pids(LISTENER) == pids, "the process has ended")


def silence(on: Stage) -> Iterator[Case]:
    """Sessions in which nothing happens, of one address and of many."""
    for addresses in (1, 50):
        with ExitStack() as kept:
            for number in range(350 if on.short else 900):
                with suppress(OSError):
                    kept.enter_context(_connected(on, f"127.0.1.{number % addresses + 1}"))
            yield case("mail of others", _arrives(on), f"silent sessions of {addresses} addresses")


def reports(on: Stage) -> Iterator[Case]:
    """Reports about a domain of the victim that cost much, and as many as possible."""
    with on.services.database.read() as session:
        query = select(Domain).join(Account).where(Account.name == on.victim.name)
        domain = session.scalars(query.where(Domain.name == on.victim.domain)).one()
    to, about = report_address(on.services.settings, domain.id) or "", domain.name
    for name, document in _bombs(about).items():
        answer = _deliver(on, to, with_attachment(to, gzip.compress(document)))
        yield case("reports", answer == 250, f"{name}: {answer}")
        yield case("mail of others", _arrives(on), name)
    sources = (("192.0.2.1", 5, "pass", "fail"),) * 400
    for number in range(45):
        report = dmarc_report(about, *sources, report_id=str(number))
        report = report.replace(b"mailbox.example", b"made-up-%d.example" % (number // 5))
        _deliver(on, to, with_attachment(to, gzip.compress(report)))
    with on.services.database.read() as session:
        contents = session.scalars(select(DomainReport.content).where(DomainReport.domain_id == domain.id))
        stored = sum(len(orjson.dumps(content)) for content in contents)
    yield case("reports", 0 < stored <= MAX_NEW_BYTES, f"{stored} bytes are stored")
    yield case("mail of others", _arrives(on), "reports of names that are made up")


def _bombs(about: str) -> dict[str, bytes]:
    whole = dmarc_report(about)

    def filled(piece: bytes) -> bytes:
        return whole.replace(b"</feedback>", piece * (7 * MEGABYTE // len(piece)) + b"</feedback>")

    return {
        "elements": filled(b"<a/>"),
        "records": filled(b"<record></record>"),
        "a long text": filled(b"x"),
        "more than is unpacked": filled(b" ") * 20,
        "members": b'{"report-id": "1", "policies": [' + b"{}," * 600_000 + b"{}]}",
        "arrays": b'{"report-id": "1", "policies": ' + b"[" * 900_000,
    }


def _port(on: Stage) -> int:
    return int(on.service.environment["INBOUND_LISTEN"].rpartition(":")[2])


def _connected(on: Stage, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", _port(on)), ENOUGH, source_address=(source, 0))


def _arrives(on: Stage) -> bool:
    """Whether the mail of another mail server is accepted."""
    return _deliver(on, TO, delivery_failure(TO, "ann@example.com"), source="127.0.0.99") == 250


def _deliver(on: Stage, to: str, mail: bytes, source: str = "127.0.0.1") -> int:
    """The code of the answer; 0 without one."""
    try:
        with smtplib.SMTP("127.0.0.1", _port(on), timeout=ENOUGH, source_address=(source, 0)) as client:
            client.sendmail("<>", [to], mail)
    except smtplib.SMTPResponseException as error:
        return error.smtp_code
    except (smtplib.SMTPException, OSError):
        return 0
    return 250


def _memory(on: Stage) -> int:
    """Resident megabytes of the listener."""
    return sum(_resident(pid) for pid in on.service.pids(LISTENER))


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 // MEGABYTE
