"""`smpps://`: TLS from the first byte, with verification of the gateway (docs/sms.md)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from app.transports.base import DeliveryResult, OutboundSms, Outcome, TransportUrlError
from app.transports.sms.incoming import GatewayMessage, GatewayReply
from app.transports.sms.smpp import SmppTransport, smpp_transport
from app.transports.sms.smpp_url import Tls, parse_smpp_url
from tests.support.fronts import tls_front
from tests.support.smpp import OK
from tests.support.smsc import Smsc
from tests.unit.transports.conftest import Certificate

MOBILE, NUMBER = "61411111111", "61400000001"
Open = Callable[..., SmppTransport]


@pytest.fixture
def smsc() -> Iterator[Smsc]:
    with Smsc() as server:
        yield server


@pytest.fixture
def open_(smsc: Smsc, certificate: Certificate) -> Iterator[Open]:
    """`open_(options)` returns a transport to the gateway behind TLS, closed after the test."""
    transports: list[SmppTransport] = []
    with tls_front(certificate.server_context, smsc.port) as port:

        def transport(options: str = "", host: str = "127.0.0.1") -> SmppTransport:
            transports.append(smpp_transport(f"smpps://tms:secret@{host}:{port}{options}"))
            return transports[-1]

        yield transport
        for opened in transports:
            opened.end()
        smsc.wait(lambda: not smsc.bound)


def sms(text: str = "Hello") -> OutboundSms:
    return OutboundSms("0b0a6d4e-5d0c-4c57-9d0e-6f3a7c1f2b11", NUMBER, MOBILE, text)


@pytest.mark.usefixtures("trusted")
def test_a_text_is_submitted_to_a_verified_gateway(smsc: Smsc, open_: Open) -> None:
    transport = open_("", "localhost")
    assert transport.send(sms()) == DeliveryResult.accepted("accepted as m1", gateway_id="m1", segments=1)
    assert smsc.submissions[0].body == b"Hello"


def test_an_unverified_gateway_gets_no_password(smsc: Smsc, open_: Open) -> None:
    result = open_().send(sms())
    assert result.outcome is Outcome.DEFERRED
    assert result.reply == "no connection to the gateway"
    assert "certificate verify failed" in (result.note or "")
    assert smsc.binds == []


def test_an_unverified_gateway_is_used_when_the_operator_allows_it(smsc: Smsc, open_: Open) -> None:
    assert open_("?tls=unverified").send(sms()).outcome is Outcome.ACCEPTED
    assert smsc.submissions[0].body == b"Hello"


@pytest.mark.usefixtures("trusted")
def test_the_connection_is_read_and_written_at_the_same_time(smsc: Smsc, open_: Open) -> None:
    """Several threads send texts while replies arrive, and none of them waits for a timeout."""
    taken: list[GatewayMessage] = []

    def take(incoming: GatewayMessage) -> bool:
        taken.append(incoming)
        return True

    transport, results = open_("?enquire=0.1"), list[DeliveryResult]()
    transport.listen(take)
    threads = [
        threading.Thread(target=lambda: results.extend(transport.send(sms("a" * 1500)) for _ in range(10)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    statuses = [smsc.deliver(MOBILE, NUMBER, f"reply {number}".encode()) for number in range(20)]
    for thread in threads:
        thread.join()
    assert statuses == [OK] * 20
    assert taken == [GatewayReply(MOBILE, NUMBER, f"reply {number}") for number in range(20)]
    assert [result.outcome for result in results] == [Outcome.ACCEPTED] * 40
    assert len(smsc.submissions) == 400
    assert len(smsc.binds) == 1


def test_all_pdus_of_one_tls_record_are_read(smsc: Smsc, open_: Open) -> None:
    """Data that is decrypted already makes no socket readable."""
    taken: list[GatewayMessage] = []

    def take(incoming: GatewayMessage) -> bool:
        taken.append(incoming)
        return True

    open_("?tls=unverified&enquire=600&timeout=600").listen(take)
    sequences = smsc.deliver_together(MOBILE, NUMBER, [b"one", b"two", b"three"])
    smsc.wait(lambda: all(sequence in smsc.answered for sequence in sequences))
    assert [reply.text for reply in taken if isinstance(reply, GatewayReply)] == ["one", "two", "three"]


def test_a_lost_connection_is_opened_again(smsc: Smsc, open_: Open) -> None:
    open_("?tls=unverified").listen(lambda _: True)
    smsc.wait(lambda: smsc.bound)
    smsc.drop()
    smsc.wait(lambda: len(smsc.binds) == 2)
    assert smsc.deliver(MOBILE, NUMBER, b"hi") == OK


def test_a_server_that_does_not_answer_times_out(smsc: Smsc) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        transport = smpp_transport(f"smpps://u:p@127.0.0.1:{silent.getsockname()[1]}?timeout=0.3")
        result = transport.send(sms())
        transport.end()
    assert result.outcome is Outcome.DEFERRED


@pytest.mark.parametrize(
    ("url", "port", "tls"),
    [
        ("smpp://u:p@h", 2775, Tls.NONE),
        ("smpps://u:p@h", 3550, Tls.VERIFIED),
        ("smpps://u:p@h:99?tls=unverified", 99, Tls.UNVERIFIED),
    ],
)
def test_options_of_the_url(url: str, port: int, tls: Tls) -> None:
    settings = parse_smpp_url(url)
    assert (settings.port, settings.tls) == (port, tls)


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("smpps://h", "smpps://h: written smpps://user:password@host:3550"),
        ("smpp://u:p@h?tls=unverified", "smpp://h: smpp:// is never encrypted; write smpps:// for TLS"),
        ("smpps://u:p@h?tls=none", "smpps://h: tls is unverified, or left out"),
    ],
)
def test_invalid_urls_are_refused(url: str, line: str) -> None:
    with pytest.raises(TransportUrlError) as caught:
        parse_smpp_url(url)
    assert str(caught.value) == line
