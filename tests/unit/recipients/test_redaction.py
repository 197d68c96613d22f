"""Redaction of the names of the installation in texts of other servers (docs/requests.md#confidentiality)."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.recipients.redaction import Redaction
from app.settings import from_environment
from tests.support.cases import each


@pytest.fixture
def redaction(tmp_path: Path) -> Redaction:
    return Redaction.of(
        from_environment(
            {
                "DATA_DIR": str(tmp_path / "data"),
                "EMAIL_TRANSPORT_URL": "smtp://user:pass@relay:2525,smtps://mx1.relays.example.net",
                "SMS_TRANSPORT_URL": "smpp://user:pass@smsc-7:2775",
                "DATABASE_URL": "postgresql://tms:secret@db.prod.example.org/tms",
                "REDIS_URL": "redis://redis:6379",
                "LOG_FORMAT": "json",
            }
        )
    )


@each(
    ("text", "expected"),
    [
        ("no connection to relay:2525: refused", "no connection to [hidden]: refused"),
        ("421 4.3.2 mx1.relays.example.net closing", "421 4.3.2 [hidden] closing"),
        ("421 node3.MX1.relays.example.net:25 closing", "421 [hidden] closing"),
        ("smsc-7 is down", "[hidden] is down"),
        ("db.prod.example.org: refused, redis:6379 too", "[hidden]: refused, [hidden] too"),
        ("250 from MTA(smtp:[127.0.0.1]:10025): queued", "250 from MTA(smtp:[hidden]): queued"),
        ("connect to 10.1.2.3:25 failed; [fd00::7]:25 too", "connect to [hidden] failed; [hidden] too"),
        ("450 mail01.corp.internal says localhost:25", "450 [hidden] says [hidden]"),
        ("connect to host.lan, mail.local", "connect to [hidden], [hidden]"),
    ],
)
def test_names_of_the_installation_are_hidden(redaction: Redaction, text: str, expected: str) -> None:
    assert redaction.redact(text) == expected


@each(
    "text",
    [
        "550 5.1.1 <ann@example.com>: no such user",
        "550 5.7.1 ann@mx1.relays.example.net: relay access denied",
        "550-5.1.1 see https://support.mail.example.com/a/b?p=NoSuchUser 4fb4d7f45d1cf-1234 - gsmtp",
        "host mx.example.com[93.184.216.34] said: 452 4.2.2 over quota",
        "the relay says: 250 2.0.0 Ok: queued as 4X:7F:1A2 at 10:20:30",
        "local policy; internal error 4.3.0",
        "redis and relay are words",
        "",
    ],
)
def test_other_names_are_not_redacted(redaction: Redaction, text: str) -> None:
    assert redaction.redact(text) == text


def test_paths_are_redacted_with_the_files_below_them(redaction: Redaction, tmp_path: Path) -> None:
    text = f"[Errno 28] No space left on device: '{tmp_path}/data/mail/1.eml'; {tmp_path}/data2 stays"
    assert redaction.redact(text) == f"[Errno 28] No space left on device: '[hidden]'; {tmp_path}/data2 stays"
