"""Kannel's `sendsms` over a real HTTP server: the requests, and the meaning of the answers (docs/sms.md)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.transports.base import DeliveryResult, OutboundSms, Outcome, Untaken
from app.transports.sms import sms_transport
from tests.support.cases import each
from tests.support.kannel import Gateway
from tests.support.servers import free_port

RECEIPTS = "http://tms.example/inbound/kannel/dlr/token"


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with Gateway() as server:
        yield server


def send(url: str, text: str = "Hello", sender: str = "ACME", **more: str) -> DeliveryResult:
    return sms_transport(url).connect().send(OutboundSms("uuid", sender, "61411111111", text, **more))


def test_the_request_to_kannel(gateway: Gateway) -> None:
    """User and password decoded from the URL, the text in UTF-8, and a URL for the receipt of this message."""
    result = send(gateway.url(), "Grüße & more", receipt_url=RECEIPTS)
    assert result == DeliveryResult.accepted("202 0: Accepted for delivery", segments=1)
    assert gateway.asked == [
        (
            "/cgi-bin/sendsms",
            {
                "username": "to@m",
                "password": "p&w",
                "from": "ACME",
                "to": "61411111111",
                "text": "Grüße & more",
                "charset": "UTF-8",
                "coding": "0",
                "dlr-mask": "19",
                "dlr-url": f"{RECEIPTS}?type=%d&answer=%A",
            },
        )
    ]


def test_text_that_gsm_cannot_encode_is_sent_as_ucs_2(gateway: Gateway) -> None:
    result = send(gateway.url("?smsc=first"), "Привет 🐝" * 10)
    ((_, query),) = gateway.asked
    assert (query["coding"], query["text"], query["smsc"]) == ("2", "Привет 🐝" * 10, "first")
    assert "dlr-url" not in query
    assert result.segments == 2


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Outcome.ACCEPTED),
        (202, Outcome.ACCEPTED),
        (302, Outcome.DEFERRED),
        (400, Outcome.REFUSED),
        (401, Outcome.DEFERRED),
        (403, Outcome.DEFERRED),
        (404, Outcome.DEFERRED),
        (413, Outcome.REFUSED),
        (429, Outcome.DEFERRED),
        (503, Outcome.DEFERRED),
    ],
)
def test_the_status_of_the_answer_decides_the_outcome(gateway: Gateway, status: int, outcome: Outcome) -> None:
    """A refusal of the message is final; failures of login, configuration or gateway are deferrals. No redirect is
    followed."""
    gateway.status, gateway.body = status, "answer\n"
    result = send(gateway.url())
    assert (result.outcome, result.reply) == (outcome, f"{status} answer")
    assert len(gateway.asked) == 1


def test_a_gateway_that_cannot_be_reached_is_a_deferral() -> None:
    """The gateway and the error are shown to the operator; the password is shown to nobody."""
    url = f"http://127.0.0.1:{free_port()}/cgi-bin/sendsms"
    result = send("kannel+" + url.replace("//", "//u:p@"))
    assert (result.outcome, result.reply) == (Outcome.DEFERRED, "no answer from the gateway")
    assert result.note == f"{url}: NewConnectionError"


@each(
    ("status", "untaken"),
    [(202, None), (400, Untaken.MESSAGE), (403, Untaken.TRANSPORT), (503, Untaken.TRANSPORT), (504, None)],
)
def test_the_status_tells_whether_another_transport_may_send(
    gateway: Gateway, status: int, untaken: Untaken | None
) -> None:
    """No other transport may send after a 504: what is behind the gateway may have taken the message."""
    gateway.status = status
    assert send(gateway.url()).untaken is untaken


def test_a_gateway_without_a_connection_has_taken_nothing(gateway: Gateway) -> None:
    assert send(f"kannel+http://tom:pw@127.0.0.1:{free_port()}").untaken is Untaken.TRANSPORT


def test_a_text_of_more_parts_than_there_are_is_not_put_into_a_url(gateway: Gateway) -> None:
    """Two megabytes of it would become a URL of eighteen."""
    result = send(gateway.url(), "é€" * 18_000)
    assert (result.outcome, gateway.asked) == (Outcome.REFUSED, [])
    assert "255 is the most" in result.reply


def test_only_the_beginning_of_an_answer_is_read(gateway: Gateway) -> None:
    """The next message takes another connection then."""
    kannel, message = sms_transport(gateway.url()).connect(), OutboundSms("uuid", "ACME", "61411111111", "Hello")
    gateway.body = "0: Accepted for delivery" + " x" * 1_000_000
    result = kannel.send(message)
    assert (result.outcome, len(result.reply) < 100_000) == (Outcome.ACCEPTED, True)
    gateway.body = "0: Accepted for delivery"
    assert kannel.send(message).outcome is Outcome.ACCEPTED
