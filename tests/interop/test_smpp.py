"""Text messages over SMPP, with a server that another library makes (docs/sms.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import yaml

from tests.interop.operator import Operator
from tests.interop.smsc import Gateway, gateway
from tests.support.launched import SEED, LaunchedService
from tests.support.servers import short_folder

NUMBER = "61400000001"
OK = "ESME_ROK"
FIELDS = [{"name": "Mobile", "type": "Mobile Phone"}]
Stage = tuple[Operator, Gateway]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        smsc = stack.enter_context(gateway(folder))
        (folder / "service").mkdir()
        service = LaunchedService(folder / "service", SMS_TRANSPORT_URL=smsc.url, RETRY_DELAY="1")
        account = {
            **SEED["accounts"][0],
            "lists": [{"name": "Phones", "fields": FIELDS, "stop_words": ["STOP"]}],
            "sms_senders": [{"address": NUMBER, "kind": "virtual_number", "list": "Phones"}],
        }
        (folder / "service" / "seed.yaml").write_text(yaml.safe_dump({"accounts": [account]}))
        service.start()
        stack.callback(service.clear)
        yield Operator(service), smsc


def sent(stage: Stage, mobile: str, text: str = "Hello.") -> tuple[str, dict[str, Any]]:
    """A text that the gateway has taken: its uuid, and what the gateway saw of its last part."""
    operator, smsc = stage
    uuid = operator.send_text(mobile, text)
    operator.wait_for_state(uuid, "sent")
    return uuid, smsc.texts_to(mobile)[-1]


def words(text: dict[str, Any], state: str) -> str:
    """The usual words of a receipt."""
    dates = "submit date:2601310900 done date:2601310901"
    return f"id:{text['message_id']} sub:001 dlvrd:001 {dates} stat:{state} err:000 text:Hello"


def steps(operator: Operator, uuid: str, step: str) -> list[str]:
    """The details of those steps of the recipient's timeline."""
    return [event["detail"] for event in operator.show(uuid)["timeline"] if event["step"] == step]


def test_a_text_is_sent_by_a_transceiver_and_acknowledged(stage: Stage) -> None:
    operator, smsc = stage
    uuid, text = sent(stage, "61411111111", "Grüße an [dich] für 5 €.")
    assert text == {
        "event": "submitted",
        "answer": OK,
        "bind": "bind_transceiver",
        "message_id": text["message_id"],
        "source": ["INTERNATIONAL", NUMBER],
        "destination": "61411111111",
        "receipt": "SMSC_DELIVERY_RECEIPT_REQUESTED",
        "header": False,
        "coding": "SMSC_DEFAULT_ALPHABET",
        "body": b"Gr\x7e\x1ee an \x1b\x3cdich\x1b\x3e f\x7er 5 \x1be. Reply STOP".hex(),
    }
    assert smsc.receipt(text, words(text, "ENROUTE")) == OK
    assert smsc.receipt(text, words(text, "DELIVRD")) == OK
    assert operator.show(uuid)["state"] == "delivered"
    without_message = words(text, "DELIVRD").removesuffix(" text:Hello")
    assert [without_message] == steps(operator, uuid, "acknowledged")


def test_a_long_text_goes_in_parts_and_the_receipt_of_the_last_counts(stage: Stage) -> None:
    operator, smsc = stage
    uuid = operator.send_text("61422222222", "слово " * 25)
    operator.wait_for_state(uuid, "sent")
    parts = smsc.texts_to("61422222222", 3)
    bodies = [bytes.fromhex(part["body"]) for part in parts]
    assert [(part["header"], part["coding"]) for part in parts] == [(True, "UCS2")] * 3
    assert [body[:3] + body[4:6] for body in bodies] == [b"\5\0\3\3\1", b"\5\0\3\3\2", b"\5\0\3\3\3"]
    assert len({body[3] for body in bodies}) == 1
    assert b"".join(body[6:] for body in bodies).decode("utf-16-be") == "слово " * 25 + " Reply STOP"
    asked, unasked = "SMSC_DELIVERY_RECEIPT_REQUESTED", "NO_SMSC_DELIVERY_RECEIPT_REQUESTED"
    assert [part["receipt"] for part in parts] == [unasked, unasked, asked]
    assert smsc.receipt(parts[-1], words(parts[-1], "DELIVRD")) == OK
    assert operator.show(uuid)["state"] == "delivered"


@pytest.mark.parametrize(("form", "mobile"), [("words", "61433333331"), ("parameters", "61433333332")])
def test_a_text_that_did_not_arrive_has_bounced(stage: Stage, form: str, mobile: str) -> None:
    """Whether the receipt says so in words or in parameters."""
    operator, smsc = stage
    uuid, text = sent(stage, mobile)
    if form == "words":
        status = smsc.receipt(text, words(text, "UNDELIV"))
    else:
        receipt = {"receipted_message_id": text["message_id"], "message_state": "UNDELIVERABLE"}
        status = smsc.receipt(text, **receipt)
    assert (status, operator.show(uuid)["state"]) == (OK, "bounced")
    assert (operator.group(mobile)["delivered"], operator.group(mobile)["bounced"]) == (0, 1)


def test_a_reply_is_received(stage: Stage) -> None:
    operator, smsc = stage
    uuid, _ = sent(stage, "61444444444")
    assert smsc.write("61444444444", NUMBER, "Gerne, um fünf".encode("latin-1")) == OK
    assert smsc.write("61444444444", NUMBER, "Привет 😀".encode("utf-16-be"), coding="UCS2") == OK
    assert smsc.write("61444444444", NUMBER, b"", message_payload=b"By parameter".hex()) == OK
    assert steps(operator, uuid, "received") == ["Gerne, um fünf", "Привет 😀", "By parameter"]
    assert operator.group("61444444444")["unsubscribed"] == 0


def test_the_parts_of_a_long_reply_are_one(stage: Stage) -> None:
    operator, smsc = stage
    uuid, _ = sent(stage, "61455555555")
    for position, body in ((2, b"come, but "), (1, b"I would like to "), (2, b"come, but "), (3, b"later.")):
        place: dict[str, Any] = {"sar_msg_ref_num": 700, "sar_total_segments": 3, "sar_segment_seqnum": position}
        assert smsc.write("61455555555", NUMBER, body, **place) == OK
    assert steps(operator, uuid, "received") == ["I would like to come, but later."]


def test_a_stop_word_unsubscribes(stage: Stage) -> None:
    operator, smsc = stage
    sent(stage, "61466666666")
    assert smsc.write("61466666666", NUMBER, b"Please stop!") == OK
    assert operator.group("61466666666")["unsubscribed"] == 1
    (contact,) = operator.get("/v1/lists/1/contacts", mobile="61466666666")["_embedded"]["contacts"]
    assert contact["subscribed"]["mobile"] is False


@pytest.mark.parametrize(
    ("status", "code", "mobile"),
    [("ESME_RTHROTTLED", "0x00000058", "61477777771"), ("ESME_RMSGQFUL", "0x00000014", "61477777772")],
)
def test_what_is_too_much_for_the_gateway_is_sent_later(stage: Stage, status: str, code: str, mobile: str) -> None:
    operator, smsc = stage
    smsc.order("answer", statuses=[status])
    uuid, _ = sent(stage, mobile)
    assert [text["answer"] for text in smsc.texts_to(mobile)] == [status, OK]
    (deferral,) = steps(operator, uuid, "deferred")
    assert deferral.startswith(f"{code} ")


def test_what_the_gateway_refuses_has_failed(stage: Stage) -> None:
    operator, smsc = stage
    smsc.order("answer", statuses=["ESME_RINVDSTADR"])
    uuid = operator.send_text("61488888888", "Hello.")
    assert "0x0000000b" in str(operator.wait_for_state(uuid, "failed"))


@pytest.mark.parametrize(
    ("order", "done", "mobile"), [("part", "parted", "61499999991"), ("cut", "cut", "61499999992")]
)
def test_a_bind_that_the_gateway_ended_is_made_again(stage: Stage, order: str, done: str, mobile: str) -> None:
    """The gateway ends the bind with an unbind, or without a word. Texts leave and receipts come as before once it is
    made again."""
    operator, smsc = stage
    smsc.order(order)
    smsc.wait(done)
    uuid, text = sent(stage, mobile)
    assert smsc.receipt(text, words(text, "DELIVRD")) == OK
    assert operator.show(uuid)["state"] == "delivered"
