"""The story of magic addresses over HTTP, with a test key (docs/testing.md#magic-addresses): each outcome reaches the
timeline, the group, the webhook and the inbox; nothing reaches the relay or the gateway, and nothing live changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
import requests
from flask import Flask
from sqlalchemy import delete
from werkzeug.serving import WSGIRequestHandler, make_server

from app.db.models import BlockedAddress, Contact, Unsubscriber, Webhook
from app.events.dispatch import dispatch_due
from app.inbound.simulated import simulate_due
from app.sends.delivery.drain import drain
from app.services import Services
from tests.cli.conftest import Cli
from tests.jobs.delivery.conftest import Changed
from tests.support.sends import SendsApi
from tests.support.servers import PATIENCE, wait_until
from tests.support.smsc import Smsc
from tests.support.tenants import Tenant
from tests.support.webhook_receiver import Receiver
from tests.unit.transports.mailserver import MailServer

COUNTERS = ("delivered", "bounced", "failed_contacts", "opened", "clicked", "unsubscribed")


@dataclass(frozen=True)
class Fate:
    """What becomes of a message: state, steps of the timeline, events, and what the group counts."""

    state: str
    steps: str
    events: str
    counts: str


FATES = {
    "bounce@simulator.test": Fate("bounced", "bounced", "bounced", "bounced"),
    "late-bounce@simulator.test": Fate("bounced", "sent bounced", "sent bounced", "bounced"),
    "Soft-Bounce+1@simulator.test": Fate("bounced", "sent bounced", "sent bounced", "bounced"),
    "complaint@simulator.test": Fate("delivered", "sent complained unsubscribed", "sent", "delivered unsubscribed"),
    "open@simulator.test": Fate("delivered", "sent opened", "sent opened", "delivered opened"),
    "click@simulator.test": Fate("delivered", "sent clicked", "sent opened clicked", "delivered opened clicked"),
    "unsubscribe@simulator.test": Fate("delivered", "sent unsubscribed", "sent", "delivered unsubscribed"),
    "slow@simulator.test": Fate("delivered", "deferred deferred sent", "sent", "delivered"),
    "447700900001": Fate("failed", "failed", "failed", "failed_contacts"),
    "447700900002": Fate("failed", "failed", "failed", "failed_contacts"),
    "447700900003": Fate("delivered", "sent acknowledged", "sent acknowledged", "delivered"),
    "447700900004": Fate("bounced", "sent bounced", "sent bounced", "bounced"),
    "447700900005": Fate("sent", "sent received unsubscribed", "sent received", "delivered unsubscribed"),
    "447700900006": Fate("sent", "deferred deferred sent", "sent", "delivered"),
    "447700900007": Fate("bounced", "sent bounced", "sent bounced", "bounced"),
}
DETAILS: dict[str, dict[str, Any]] = {
    "bounce@simulator.test": {"bounce_string": "550 5.1.1 simulated: no such user", "is_temporary_bounce": False},
    "Soft-Bounce+1@simulator.test": {"bounce_reason": "mailbox unavailable", "is_temporary_bounce": True},
    "open@simulator.test": {"device_type": "mobile", "is_machine": None},
    "click@simulator.test": {"link_url": "https://acme.example/start", "is_machine": None},
    "447700900001": {"fail_reason": "rejected"},
    "447700900002": {"fail_reason": "expired"},
    "447700900004": {"is_temporary_bounce": False},
    "447700900005": {"body_text": "STOP"},
    "447700900007": {"is_temporary_bounce": True},
}
"""What the last event of the message says."""


class Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """The service logs its requests itself."""


@contextmanager
def served(app: Flask) -> Iterator[str]:
    """The base URL of the API."""
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def working(worker: Services) -> Iterator[None]:
    """The workers, which look for work all the time."""

    def work() -> None:
        while not worker.stopping.wait(0.1):
            drain(worker)
            simulate_due(worker)
            dispatch_due(worker)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        worker.stopping.set()
        thread.join()


@dataclass(frozen=True)
class User:
    """Someone who uses a test key over HTTP."""

    base: str
    token: str
    domain: str
    number: str

    def get(self, path: str) -> dict[str, Any]:
        answer = requests.get(self.base + path, headers=self.headers, timeout=PATIENCE)
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    def send(self, list_id: int, address: str) -> str:
        """Sends to an address, in a group of its name; the uuid of the recipient."""
        common = {"list_id": list_id, "group_name": address}
        if "@" in address:
            html = '<p><a href="https://acme.example/start">Start</a> <a href="https://acme.example/">Acme</a></p>'
            body = {**common, "type": "email", "subject": "Hello", "from_name": "Acme", "body_html": html}
            body |= {"from_address": f"hello@{self.domain}", "recipients": [{"email": address}]}
        else:
            body = {**common, "type": "sms", "from_address": self.number, "body_text": "Hello. Reply STOP"}
            body |= {"unsubscribe_type": "word", "recipients": [{"mobile": address}]}
        answer = requests.post(f"{self.base}/v1/transactional-sends", json=body, headers=self.headers, timeout=PATIENCE)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["_embedded"]["recipients"][0]["uuid"])

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@pytest.fixture
def live(tenant: Tenant) -> SendsApi:
    """A live account with a list and a number; its contacts have magic addresses, too."""
    sends = SendsApi(tenant)
    assert sends.number
    for address in FATES:
        tenant.new_contact(sends.list_id, **{"email": f"{address}@example.com", kind_of(address): address})
    with tenant.services.database.write() as transaction:
        transaction.execute(delete(Webhook))  # those of other tests, whose receivers are gone
    return sends


def kind_of(address: str) -> str:
    return "email" if "@" in address else "mobile"


def test_every_magic_outcome_reaches_everything_but_the_relay(
    app: Flask, live: SendsApi, make_worker: Changed, mail_server: MailServer
) -> None:
    with Smsc() as gateway, Receiver(200) as receiver, served(app) as base:
        worker = make_worker(sms_transport_url=gateway.url())
        key = Cli(app, live.tenant.name).json("keys", "create", "story", "--level", "standard", "--test")
        Cli(app, key["account"]).json("webhooks", "create", receiver.url)
        user = User(base, key["token"], live.tenant.domain, live.number)
        (copied,) = user.get("/v1/lists")["_embedded"]["lists"]
        with working(worker):
            uuids = {address: user.send(copied["id"], address) for address in FATES}
            for address, uuid in uuids.items():
                check(user, receiver, address, uuid)
        captured = user.get("/v1/inbox?limit=100")["_embedded"]["messages"]
        assert sorted(message["uuid"] for message in captured) == sorted(uuids.values())
        assert (mail_server.sessions, gateway.binds) == (0, [])
    assert {event["test"] for event in receiver.events} == {True}
    check_untouched(live)


def check(user: User, receiver: Receiver, address: str, uuid: str) -> None:
    """Waits for what becomes of the message."""
    fate, kind = FATES[address], kind_of(address)

    def events() -> list[dict[str, Any]]:
        return [event for event in receiver.events if event.get("uuid") == uuid]

    def steps() -> str:
        recipient = user.get(f"/v1/transactional-sends/{uuid}")
        return " ".join([recipient["state"], *(step["step"] for step in recipient["timeline"])])

    wait_until(
        lambda: " ".join(event["event"] for event in events()) == fate.events, f"the events of {address} are there"
    )
    wait_until(lambda: steps() == f"{fate.state} {fate.steps}", f"the timeline of {address} is complete")
    assert {event[kind] for event in events()} == {address}
    last, details = events()[-1], DETAILS.get(address, {})
    assert {name: last.get(name) for name in details} == details
    (group,) = user.get(f"/v1/transactional-groups?name={quote(address)}")["_embedded"]["transactional-groups"]
    assert {name for name in COUNTERS if group[name]} == set(fate.counts.split())


def check_untouched(live: SendsApi) -> None:
    """The live contacts with the same addresses are neither blocked nor unsubscribed."""
    assert (live.rows(BlockedAddress), live.rows(Unsubscriber)) == ([], [])
    contacts = live.rows(Contact)
    assert {(contact.subscribed_email, contact.subscribed_mobile) for contact in contacts} == {(True, True)}
    assert len(contacts) == len(FATES)
