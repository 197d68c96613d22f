"""The installation in which the examples of a page are run: the demo as `make run` creates it, with a message of each
type that was sent, and a contact that an automation has welcomed. Each page gets a copy of its own, in which every id
of the examples is right: list 1, contact 1, message 1. The API is served over HTTP, and messages are sent meanwhile.
"""

from __future__ import annotations

import re
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from flask import Flask
from sqlalchemy import select, update
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from app.clock import this_second
from app.db.models import Account, CapturedMessage, Recipient
from app.http.context import EXTENSION
from app.launcher import screen as demos
from app.launcher.service import migrate_database
from app.runs.work import advance_due
from app.seed.load import load_seed
from app.seed.read import read_file
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import close_sender_worker
from app.services import Services, make_services
from app.settings import Settings
from tests.conftest import test_settings
from tests.support.apps import new_app
from tests.support.client import SENDS, Client
from tests.support.demo import load_demo
from tests.support.nameserver import NameServer
from tests.support.servers import short_folder
from tests.unit.transports.mailserver import MailServer

MORE = Path(__file__).parent / "world.yaml"
TOKEN = read_file(demos.SEED, {})["accounts"][0]["keys"][0]["token"]
GROUP = {"list_id": 1, "group_name": "Welcome"}
EMAIL = {**GROUP, "type": "email", "message_id": 1, "recipients": [{"email": "ann@example.com"}]}
SMS = {
    "type": "sms",
    "group_name": "Reminders",
    "from_address": "ACME",
    "body_text": "See you at nine. STOP to opt out",
    "recipients": [{"mobile": "61411111111"}],
}
KNOWN = {"0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a10": EMAIL, "0b0a6d4e-5d0c-4c57-9d0e-6f3a7c1f2b11": SMS}
"""The uuids in the examples, and what was sent to these recipients."""
PAUSE = 0.05
"""Seconds between two looks for messages that are due."""
RELAY = "smtp://relay.example"
ADDRESSES = ("http://127.0.0.1:8000", "https://tms.example.com")
KEY = re.compile(r"\btms_\.\.\.")
"""The relay, the address of the service and a key in the examples."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where commands are typed. `folder` is their working folder, with the data folder `var` in it."""

    folder: Path
    base: str
    relay: str
    """The URL of a mail relay that keeps what it gets."""
    token: str = TOKEN

    def local(self, text: str) -> str:
        """The text with the addresses of this service and its relay, and a key."""
        text = KEY.sub(self.token, text).replace(RELAY, self.relay)
        for address in ADDRESSES:
            text = text.replace(address, self.base)
        return text


@dataclass(frozen=True, kw_only=True)
class World(Place):
    """A running copy."""

    app: Flask

    @property
    def services(self) -> Services:
        """The parts of the application's process."""
        app_services: Services = self.app.extensions[EXTENSION]
        return app_services

    @contextmanager
    def with_data_dir(self, folder: str | None) -> Iterator[World]:
        """The world of a command. A command with a DATA_DIR of its own has another installation in that folder."""
        if folder is None:
            yield self
            return
        settings = test_settings(Path(folder).absolute(), REDIS_URL=self.services.settings.redis_url)
        with _application(settings) as app:
            yield replace(self, app=app)


@contextmanager
def template(redis_url: str) -> Iterator[Path]:
    """The data folder that is copied for each page."""
    with short_folder() as folder:
        migrate_database(settings := test_settings(folder, REDIS_URL=redis_url))
        with _application(settings) as app:
            client, services = Client(app, TOKEN), app.extensions[EXTENSION]
            _load_what_is_sent(services)
            for uuid, body in KNOWN.items():
                answer = client.post(SENDS, body)
                assert answer.status_code == 202, answer.text
                drain(services)
                _rename(services, answer.get_json()["_embedded"]["recipients"][0]["uuid"], uuid)
            load_demo(services)
            load_seed(services, MORE)
            _capture(services)
            answer = client.post("/v1/lists/1/contacts", {"email": "kim@example.com", "plan": "gold"})
            assert answer.status_code == 201, answer.text
            advance_due(services)
            drain(services)
            close_sender_worker(services)
        yield folder


def _rename(services: Services, made: str, uuid: str) -> None:
    with services.database.write() as transaction:
        transaction.execute(update(Recipient).where(Recipient.uuid == made).values(uuid=uuid))


def _capture(services: Services) -> None:
    """A message in the inbox, as a test key would have sent it."""
    with services.database.write() as transaction:
        account = transaction.scalars(select(Account)).one()
        mail = b"Subject: Welcome\r\n\r\nHello"
        columns = {"recipient_id": 1, "is_copy": False, "uuid": next(iter(KNOWN)), "type": "email", "content": mail}
        to = {"sender": "bounces@acme.example", "address": "ann@example.com", "subject": "Welcome"}
        transaction.add(CapturedMessage(account_id=account.id, captured_time=this_second(), **columns, **to))


def _load_what_is_sent(services: Services) -> None:
    """The demo without its automations, whose steps have ids that the first group would have otherwise."""
    demo = read_file(demos.SEED, {})
    for later in ("automations", "webhooks"):
        demo["accounts"][0].pop(later)
    file = services.settings.data_dir / "demo.yaml"
    file.write_text(yaml.safe_dump(demo), "utf-8")
    load_seed(services, file)


@contextmanager
def _application(settings: Settings) -> Iterator[Flask]:
    app = new_app(settings)
    try:
        yield app
    finally:
        app.extensions[EXTENSION].database.close()
        app.extensions[EXTENSION].redis.close()


@contextmanager
def world(data: Path, redis_url: str) -> Iterator[World]:
    """A running copy of the template."""
    with ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        shutil.copytree(data, folder / "var")
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = int(listener.getsockname()[1])
        names = stack.enter_context(NameServer())
        settings = test_settings(folder / "var", REDIS_URL=redis_url, PORT=str(port), DNS_RESOLVER=names.address)
        app = stack.enter_context(_application(settings))
        stack.enter_context(_served(app, listener))
        relay = stack.enter_context(MailServer())
        stack.enter_context(_sending(settings))
        yield World(app=app, folder=folder, base=f"http://127.0.0.1:{port}", relay=f"smtp://127.0.0.1:{relay.port}")


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """The service logs its requests itself."""


@contextmanager
def _served(app: Flask, listener: socket.socket) -> Iterator[None]:
    host, port = listener.getsockname()
    server: BaseWSGIServer = make_server(host, port, app, threaded=True, request_handler=_Quiet, fd=listener.fileno())
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def _sending(settings: Settings) -> Iterator[None]:
    services = make_services(settings)
    thread = threading.Thread(target=_send, args=(services,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        services.stopping.set()
        thread.join()
        close_sender_worker(services)
        services.database.close()
        services.redis.close()


def _send(services: Services) -> None:
    while not services.stopping.wait(PAUSE):
        drain(services)
        advance_due(services)
