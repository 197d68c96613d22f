"""SMPP against a server written from the standard: requests, meaning of responses, incoming messages."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.transports.base import DeliveryResult, OutboundSms, Outcome
from app.transports.sms import sms_transport
from app.transports.sms.incoming import (
    INTERMEDIATE_NOTIFICATION,
    GatewayMessage,
    GatewayPart,
    GatewayReceipt,
    GatewayReply,
)
from app.transports.sms.smpp import SmppTransport
from tests.support.servers import PATIENCE, free_port
from tests.support.smpp import (
    BIND_TRANSCEIVER,
    BIND_TRANSMITTER,
    DATA_SM,
    DELIVER_SM,
    INVALID_DESTINATION,
    LATER,
    NEVER,
    OK,
    QUEUE_FULL,
    RECEIPT,
    THROTTLED,
    Submission,
)
from tests.support.smsc import Smsc

UNKNOWN_COMMAND = 0x03
UUID = "0b0a6d4e-5d0c-4c57-9d0e-6f3a7c1f2b11"
Open = Callable[..., SmppTransport]


@pytest.fixture
def smsc() -> Iterator[Smsc]:
    with Smsc() as transport_for_url:
        yield transport_for_url


@pytest.fixture
def open_() -> Iterator[Open]:
    """`open_(url)` returns a transport that is closed after the test."""
    transports: list[SmppTransport] = []

    def transport(url: str) -> SmppTransport:
        transport_for_url = sms_transport(url)
        assert isinstance(transport_for_url, SmppTransport)
        transports.append(transport_for_url)
        return transport_for_url

    yield transport
    for opened in transports:
        opened.end()


def sms(text: str = "Hello", sender: str = "61400000001") -> OutboundSms:
    return OutboundSms(UUID, sender, "61411111111", text)


def test_a_text_is_submitted(smsc: Smsc, open_: Open) -> None:
    transport = open_(smsc.url())
    assert transport.connect().send(sms("Hi [you]")) == DeliveryResult.accepted(
        "accepted as m1", gateway_id="m1", segments=1
    )
    assert smsc.submissions == [
        Submission((1, 1, "61400000001"), (1, 1, "61411111111"), 0, 1, 0, b"Hi \x1b\x3cyou\x1b\x3e")
    ]
    assert smsc.binds == [BIND_TRANSCEIVER]


def test_an_alphanumeric_sender_has_its_type_of_number(smsc: Smsc, open_: Open) -> None:
    open_(smsc.url("?bind=transmitter")).send(sms(sender="ACME"))
    assert smsc.submissions[0].source == (5, 0, "ACME")
    assert smsc.binds == [BIND_TRANSMITTER]


@pytest.mark.parametrize(
    ("text", "coding", "lengths", "decode"),
    [
        ("a" * 152 + "€" * 10, 0, [152, 20], lambda data: data.replace(b"\x1be", b"EE").decode()),
        ("ж" * 66 + "🐝" * 4, 8, [132, 16], lambda data: data.decode("utf-16-be")),
    ],
)
def test_a_long_text_is_submitted_in_numbered_parts(
    *, smsc: Smsc, open_: Open, text: str, coding: int, lengths: list[int], decode: Callable[[bytes], str]
) -> None:
    """A header joins them, none splits a character, and only the last requests a receipt."""
    result = open_(smsc.url()).send(sms(text))
    assert (result.segments, result.gateway_id) == (2, "m2")
    assert [submission.body[:3] for submission in smsc.submissions] == [b"\5\0\3"] * 2
    assert len({submission.body[3] for submission in smsc.submissions}) == 1
    assert [submission.body[4:6] for submission in smsc.submissions] == [b"\2\1", b"\2\2"]
    assert [len(submission.body) - 6 for submission in smsc.submissions] == lengths
    assert "".join(decode(submission.body[6:]) for submission in smsc.submissions) == text.replace("€", "EE")
    assert [(submission.esm_class, submission.data_coding) for submission in smsc.submissions] == [(0x40, coding)] * 2
    assert [submission.registered_delivery for submission in smsc.submissions] == [0, 1]


def test_a_text_of_too_many_parts_is_refused(smsc: Smsc, open_: Open) -> None:
    result = open_(smsc.url()).send(sms("a" * 153 * 256))
    assert (result.outcome, result.reply) == (Outcome.REFUSED, "the text has 256 parts; 255 is the most")
    assert smsc.submissions == []


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (THROTTLED, Outcome.DEFERRED),
        (QUEUE_FULL, Outcome.DEFERRED),
        (0x08, Outcome.DEFERRED),
        (0x64, Outcome.DEFERRED),
        (INVALID_DESTINATION, Outcome.REFUSED),
        (0x400, Outcome.REFUSED),
    ],
)
def test_the_status_of_a_response_decides_the_outcome(
    *, smsc: Smsc, open_: Open, status: int, outcome: Outcome
) -> None:
    """Throttling and temporary errors are deferrals; every other error is a refusal."""
    smsc.statuses.append(status)
    result = open_(smsc.url()).send(sms())
    assert (result.outcome, result.gateway_id) == (outcome, None)
    assert result.reply.startswith(f"{status:#010x} ")


def test_a_retry_continues_after_the_accepted_part(smsc: Smsc, open_: Open) -> None:
    smsc.statuses += [OK, 0x08]
    transport = open_(smsc.url())
    assert transport.send(sms("a" * 200)).outcome is Outcome.DEFERRED
    assert transport.send(sms("a" * 200)).outcome is Outcome.ACCEPTED
    assert len({submission.body[3] for submission in smsc.submissions}) == 1


def test_threads_share_one_bind(smsc: Smsc, open_: Open) -> None:
    transport, results = open_(smsc.url("?window=3")), list[DeliveryResult]()
    threads = [threading.Thread(target=lambda: results.append(transport.connect().send(sms()))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {result.gateway_id for result in results} == {f"m{number}" for number in range(1, 21)}
    assert smsc.binds == [BIND_TRANSCEIVER]


def test_a_gateway_that_cannot_be_reached_is_a_deferral(open_: Open) -> None:
    result = open_(f"smpp://u:p@127.0.0.1:{free_port()}").send(sms())
    assert result.outcome is Outcome.DEFERRED
    assert result.reply == "no connection to the gateway"
    assert (result.note or "").startswith("no bind to the gateway: ")


def test_a_wrong_password_is_a_deferral_with_its_reason(smsc: Smsc, open_: Open) -> None:
    result = open_(smsc.url(password="wrong")).send(sms())
    assert (result.outcome, result.note) == (
        Outcome.DEFERRED,
        "no bind to the gateway: (14) bind_transceiver_resp: Invalid Password",
    )


def test_a_missing_response_is_a_deferral(smsc: Smsc, open_: Open) -> None:
    smsc.silent = True
    result = open_(smsc.url("?timeout=2")).send(sms())
    assert result == DeliveryResult.deferred(
        "no answer; the message may have been taken", note="no answer within 2 seconds"
    )


def test_a_lost_connection_is_opened_again(smsc: Smsc, open_: Open) -> None:
    transport = open_(smsc.url())
    transport.listen(lambda _: True)
    smsc.wait(lambda: smsc.bound)
    smsc.drop()
    smsc.wait(lambda: len(smsc.binds) == 2)
    assert smsc.deliver("61411111111", "61400000001", b"hi") == OK
    assert transport.send(sms()).outcome is Outcome.ACCEPTED


@pytest.mark.parametrize("header", [(16, 0x8000FFFF), (0xFFFFFFFF, DELIVER_SM)], ids=["command", "length"])
def test_a_response_that_is_not_smpp_causes_a_new_bind(open_: Open, header: tuple[int, int]) -> None:
    """One that announces more than any message has is not waited for."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        open_(f"smpp://u:p@127.0.0.1:{server.getsockname()[1]}").listen(lambda _: True)
        for _ in range(2):
            connection, _ = server.accept()
            with connection:
                connection.sendall(struct.pack(">4L", *header, 0, 1))
                connection.settimeout(PATIENCE)
                while connection.recv(1024):
                    pass


def test_an_idle_connection_is_kept_alive(smsc: Smsc, open_: Open) -> None:
    open_(smsc.url("?enquire=0.1")).listen(lambda _: True)
    smsc.wait(lambda: smsc.enquiries >= 2)
    assert smsc.binds == [BIND_TRANSCEIVER]


class TakenMessages(list[GatewayMessage]):
    """A handler that takes every message and keeps it."""

    def __call__(self, incoming: GatewayMessage) -> bool:
        self.append(incoming)
        return True


NUMBERS = ("61411111111", "61400000001")
SAR = b"\x02\x0c\0\2\1\7" + b"\x02\x0e\0\1\3" + b"\x02\x0f\0\1\2"
"""The optional parameters of part 2 of 3 of the text 263."""


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"body": b"id:m7 sub:001 dlvrd:001 stat:DELIVRD err:000", "esm_class": RECEIPT},
            GatewayReceipt("m7", "delivered", "id:m7 sub:001 dlvrd:001 stat:DELIVRD err:000"),
        ),
        (
            {"body": b"id:m7 stat:undeliv", "esm_class": RECEIPT},
            GatewayReceipt("m7", "failed", "id:m7 stat:undeliv"),
        ),
        ({"body": b"id:m7 stat:ENROUTE", "esm_class": RECEIPT}, None),
        ({"body": b"stat:DELIVRD", "esm_class": RECEIPT}, None),
        ({"body": b"id:m7 stat:ENROUTE text:Reply STOP", "esm_class": INTERMEDIATE_NOTIFICATION}, None),
        ({"body": b"id:m7 stat:UNDELIV err:001", "esm_class": INTERMEDIATE_NOTIFICATION}, None),
        ({"body": b"caf\x05 [\x1b\x65]"}, GatewayReply("61411111111", "61400000001", "café Ä€Ñ")),
        (
            {"body": "Привет".encode("utf-16-be"), "coding": 8},
            GatewayReply("61411111111", "61400000001", "Привет"),
        ),
        *(
            ({"body": header + b"part", "esm_class": 0x40}, GatewayPart(*NUMBERS, b"part", 0, reference, 2, 1))
            for header, reference in (
                (b"\5\0\3\7\2\1", 7),
                (b"\6\x08\4\1\7\2\1", 263),
                (b"\x09\x24\2\1\1\0\3\7\2\1", 7),
            )
        ),
        (
            {"body": b"part", "parameters": SAR},
            GatewayPart(*NUMBERS, b"part", 0, 263, 3, 2),
        ),
        *(
            ({"body": header + b"part", "esm_class": 0x40}, GatewayReply(*NUMBERS, "part"))
            for header in (b"\5\0\3\7\1\1", b"\5\0\3\7\2\3", b"\5\0\3\7\2\0", b"\3\x24\1\1", b"\2\0\3", b"\0")
        ),
    ],
)
def test_incoming_messages_reach_the_handler(
    *, smsc: Smsc, open_: Open, fields: dict[str, Any], expected: GatewayMessage | None
) -> None:
    """Receipts of a final state, and replies in their alphabet; other receipts are acknowledged and dropped."""
    taken = TakenMessages()
    open_(smsc.url()).listen(taken)
    assert smsc.deliver("61411111111", "61400000001", **fields) == OK
    assert taken == ([expected] if expected else [])


def test_unknown_parameters_are_skipped_and_fill_no_log(
    smsc: Smsc, open_: Open, caplog: pytest.LogCaptureFixture
) -> None:
    taken = TakenMessages()
    open_(smsc.url()).listen(taken)
    assert smsc.deliver(*NUMBERS, b"hi", parameters=b"\x7f\xff\0\1x" * 10_000) == OK
    assert taken == [GatewayReply(*NUMBERS, "hi")]
    assert [record for record in caplog.records if record.name.startswith("smpplib")] == []


def test_a_message_that_cannot_be_handled_now_is_delivered_again(smsc: Smsc, open_: Open) -> None:
    answers = [False, False, True]
    open_(smsc.url()).listen(lambda _: answers.pop(0))
    assert [smsc.deliver("61411111111", "61400000001", b"hi") for _ in range(3)] == [LATER, LATER, OK]


def test_a_message_of_a_lost_bind_is_left_to_its_redelivery(smsc: Smsc, open_: Open) -> None:
    """It cannot be acknowledged any more, so the gateway delivers it again: handled twice, a reply would be doubled."""
    taken, may_go_on = list[GatewayMessage](), threading.Event()

    def take(incoming: GatewayMessage) -> bool:
        taken.append(incoming)
        return may_go_on.wait(PATIENCE)

    transport = open_(smsc.url())
    transport.listen(take)
    smsc.deliver_together(*NUMBERS, [b"being handled", b"waiting"])
    assert transport.send(sms()).outcome is Outcome.ACCEPTED, "what was sent before this answer is read, too"
    smsc.drop()
    smsc.wait(lambda: len(smsc.binds) == 2)
    may_go_on.set()
    assert smsc.deliver(*NUMBERS, b"again") == OK
    assert taken == [GatewayReply(*NUMBERS, text) for text in ("being handled", "again")]


def test_a_message_that_can_never_be_handled_is_refused_for_good(smsc: Smsc, open_: Open) -> None:
    """The gateway would deliver the message for ever if it were told to try again."""

    def take(incoming: GatewayMessage) -> bool:
        if isinstance(incoming, GatewayReply) and incoming.text == "poison":
            raise ValueError("a fault of this message")
        return True

    open_(smsc.url()).listen(take)
    texts = (b"poison", b"harmless", b"poison")
    assert [smsc.deliver("61411111111", "61400000001", text) for text in texts] == [NEVER, OK, NEVER]


CUT_OFF = b"\0\1\1" + b"61411111111\0" + b"\1\1" + b"61400000001\0" + b"\0" * 9 + b"\2hi" + b"\x02"
"""A message that ends within the type of an optional parameter."""


@pytest.mark.parametrize("body", [CUT_OFF, b""])
def test_a_message_that_cannot_be_read_is_refused_for_good(smsc: Smsc, open_: Open, body: bytes) -> None:
    """The bind goes on: the PDU was received completely."""
    taken = TakenMessages()
    open_(smsc.url()).listen(taken)
    assert smsc.deliver_raw(body) == NEVER
    assert smsc.deliver("61411111111", "61400000001", b"hi") == OK
    assert taken == [GatewayReply(*NUMBERS, "hi")]


def test_a_request_of_another_kind_gets_a_negative_answer(smsc: Smsc, open_: Open) -> None:
    open_(smsc.url()).listen(lambda _: True)
    assert smsc.deliver_raw(b"", command=0x7777) == UNKNOWN_COMMAND
    assert smsc.deliver_raw(b"", command=DATA_SM) == UNKNOWN_COMMAND
