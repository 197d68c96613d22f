"""Text messages through a real gateway: delivery, receipts and replies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import yaml

from app.inbound.kannel import reply_url
from app.settings import from_environment
from tests.interop.kannel import Kannel
from tests.interop.operator import Operator
from tests.support.launched import SEED, LaunchedService
from tests.support.servers import short_folder, wait_until

NUMBER = "61400000001"
FIELDS = [{"name": "Mobile", "type": "Mobile Phone"}]


@pytest.fixture(scope="module")
def gateway() -> Iterator[tuple[Operator, Kannel]]:
    with ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        for name in ("kannel", "service"):
            (folder / name).mkdir()
        kannel = Kannel(folder / "kannel")
        service = LaunchedService(folder / "service", SMS_TRANSPORT_URL=kannel.url)
        account = {
            **SEED["accounts"][0],
            "lists": [{"name": "Phones", "fields": FIELDS, "stop_words": ["STOP"]}],
            "sms_senders": [{"address": NUMBER, "kind": "virtual_number", "list": "Phones"}],
        }
        (folder / "service" / "seed.yaml").write_text(yaml.safe_dump({"accounts": [account]}))
        service.start()
        stack.callback(service.clear)
        kannel.start(reply_url(from_environment(service.environment)))
        stack.callback(kannel.stop)
        yield Operator(service), kannel


def test_a_text_reaches_the_network_and_its_receipt_comes_back(gateway: tuple[Operator, Kannel]) -> None:
    operator, kannel = gateway
    uuid = operator.send_text("61411111111", "Your code is 4711.")
    message = operator.wait_for_state(uuid, "delivered")
    assert f"{NUMBER} 61411111111 text Your code is 4711. Reply STOP" in kannel.network().replace("+", " ")
    assert "acknowledged" in str(message["timeline"])


def test_a_long_text_arrives_in_parts(gateway: tuple[Operator, Kannel]) -> None:
    operator, kannel = gateway
    uuid = operator.send_text("61422222222", "word " * 60)
    operator.wait_for_state(uuid, "delivered")
    wait_until(lambda: kannel.network().count(f"{NUMBER} 61422222222 udh") == 3, "three parts have arrived")


def test_a_stop_word_unsubscribes(gateway: tuple[Operator, Kannel]) -> None:
    operator, kannel = gateway
    uuid = operator.send_text("61433333333", "Hello.")
    operator.wait_for_state(uuid, "delivered")
    kannel.reply("61433333333", NUMBER, "stop")
    wait_until(lambda: operator.group("61433333333")["unsubscribed"] == 1, "the reply has unsubscribed", 60)
    (contact,) = operator.get("/v1/lists/1/contacts", mobile="61433333333")["_embedded"]["contacts"]
    assert contact["subscribed"]["mobile"] is False


def test_the_parts_of_a_long_reply_are_one(gateway: tuple[Operator, Kannel]) -> None:
    """Kannel joins them itself."""
    operator, kannel = gateway
    uuid = operator.send_text("61444444444", "Hello.")
    operator.wait_for_state(uuid, "delivered")
    kannel.reply_in_parts("61444444444", NUMBER, ["I would like to ", "come, but ", "later."])
    wait_until(lambda: "received" in str(operator.show(uuid)["timeline"]), "the reply has come", 60)
    details = [step["detail"] for step in operator.show(uuid)["timeline"] if step["step"] == "received"]
    assert details == ["I would like to come, but later."]
