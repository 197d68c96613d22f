"""The choice of a transport by the scheme of its URL."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.transports.base import OutboundSms, TransportUrlError
from app.transports.email import email_transport
from app.transports.sms import sms_transport
from tests.support.cases import each

PIGEON = """
from app.transports.base import DeliveryResult, TransportUrlError

class Pigeon:
    def connect(self):
        return self
    def send(self, message):
        return DeliveryResult.accepted(f"flown to {message.to}")
    def close(self):
        pass

def from_url(url):
    if "loft" not in url:
        raise TransportUrlError("pigeon: a loft is needed")
    return Pigeon()
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Installs a package with a transport for Python; takes the line of its entry point."""

    def put(entry_point: str) -> None:
        (tmp_path / "tms_pigeon.py").write_text(PIGEON)
        record = tmp_path / "tms_pigeon-1.0.dist-info"
        record.mkdir()
        (record / "METADATA").write_text("Metadata-Version: 2.1\nName: tms-pigeon\nVersion: 1.0\n")
        (record / "entry_points.txt").write_text(f"[tms.transports]\n{entry_point}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "tms_pigeon", raising=False)

    return put


def test_an_installed_package_is_found_by_its_entry_point(install: Callable[[str], None]) -> None:
    install("pigeon = tms_pigeon:from_url")
    connection = sms_transport("pigeon://loft").connect()
    assert connection.send(OutboundSms("1", "ACME", "61411111111", "Hi")).reply == "flown to 61411111111"


def test_it_validates_its_own_urls(install: Callable[[str], None]) -> None:
    install("pigeon = tms_pigeon:from_url")
    with pytest.raises(TransportUrlError, match=r"^pigeon: a loft is needed$"):
        email_transport("pigeon://roof")


def test_it_cannot_replace_a_built_in_transport(install: Callable[[str], None], tmp_path: Path) -> None:
    install("file = tms_pigeon:from_url")
    connection = sms_transport(f"file://{tmp_path}/loft").connect()
    assert connection.send(OutboundSms("1", "ACME", "61411111111", "Hi")).note == f"written to {tmp_path}/loft"


@pytest.mark.parametrize("target", ["tms_pigeon:missing", "tms_no_such_module:from_url"])
def test_a_package_that_cannot_be_loaded_is_named(install: Callable[[str], None], target: str) -> None:
    install(f"pigeon = {target}")
    with pytest.raises(TransportUrlError, match=rf"^the transport pigeon:// \({target}\) cannot be loaded: "):
        sms_transport("pigeon://loft")


@each(
    ("make", "url", "line"),
    [
        (
            email_transport,
            "imap://h",
            "unknown transport imap://; known: file://, smtp://, smtps:// and schemes of installed packages",
        ),
        (
            sms_transport,
            "smtp://h",
            "unknown transport smtp://; known: file://, kannel+http://, kannel+https://, smpp://, smpps:// and "
            "schemes of installed packages",
        ),
        (sms_transport, "smpp://h", "smpp://h: written smpp://user:password@host:2775"),
        (sms_transport, "smpp://u:secret@h?bind=x", "smpp://h: bind is transceiver or transmitter"),
        (sms_transport, "smpp://u:secret@h?window=0", "smpp://h: window is a whole number from 1 to 1000"),
        (sms_transport, "smpp://u:secret@h?binds=0", "smpp://h: binds is a whole number from 1 to 1000"),
        (
            sms_transport,
            "smpp://u:password9@h",
            "smpp://h: the user has 15 characters at most and the password 8, all of them ASCII (SMPP 3.4)",
        ),
        (
            sms_transport,
            "kannel+http://h/cgi-bin/sendsms",
            "kannel+http://h/cgi-bin/sendsms: written kannel+http://user:password@host:13013/cgi-bin/sendsms",
        ),
        (email_transport, "", "the transport URL has no scheme; it begins with one of file://, smtp://, smtps://"),
        (
            email_transport,
            "/var/outbox",
            "the transport URL has no scheme; it begins with one of file://, smtp://, smtps://",
        ),
        (
            email_transport,
            "smtp://h:port",
            "the transport URL has no valid host and port; special characters of user and password are written as %xx",
        ),
    ],
)
def test_an_unusable_url_is_reported_in_one_line(make: Callable[[str], object], url: str, line: str) -> None:
    with pytest.raises(TransportUrlError) as caught:
        make(url)
    assert str(caught.value) == line
