"""The installation under attack: the service as an operator starts it, with its relay, gateways and a webhook receiver,
and the accounts of a victim and of an attacker, who have the same things."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import requests
import yaml
from sqlalchemy import func, or_, select

from app.db.models import Account, AutomationRun, QueueEntry, Webhook
from app.events.batch_contents import waiting_events
from app.services import Services, make_services
from app.settings import from_environment
from tests.attack.description import Operation, operations
from tests.attack.party import NAMES, REBOUND, Party, seed_of
from tests.attack.peers import Gateway, Relay, Trap
from tests.support.launched import ROOT, LaunchedService
from tests.support.postgres_process import PostgresProcess
from tests.support.provider import Provider, provider
from tests.support.servers import free_port, scratch_database, short_folder, wait_until
from tests.support.webhook_receiver import Receiver

RELAY_PASSWORD = "p4ssw0rd-of-the-relay"
GATEWAY_PASSWORD = "smpp-pw"
KANNEL_PASSWORD = "p4ssw0rd-of-kannel"
SECRET_KEY = "s3cr3t-key-of-the-installation-under-attack-0123456789"
PUBLIC = "93.184.216.34"
ENOUGH = 60.0
"""Seconds in which a request is answered, whatever others ask of the service, also on a busy machine."""
SENDS = "/v1/transactional-sends"


class Stage:
    """One installation. `strict` stands behind a proxy, requires https, and lets webhooks reach public addresses only;
    `short` says that a few cases of each kind are enough."""

    def __init__(
        self, folder: Path, database_url: str | None, *, strict: bool, short: bool, broken: str | None, peers: Peers
    ) -> None:
        self.folder, self.short, self.strict = folder, short, strict
        self.relay, self.gateway, self.kannel, self.receiver, self.trap, self.provider = peers
        self.names = folder / "names.json"
        self.names.write_text(json.dumps({name: [PUBLIC] for name in REBOUND}))
        self.database_url = database_url
        self.service = LaunchedService(folder, [sys.executable, "-m", "app.launcher"], **self._settings(broken))
        self.victim, self.attacker = (Party(name) for name in NAMES)
        self.answers: list[requests.Response] = []
        """All answers to requests of `ask`."""

    def _settings(self, broken: str | None) -> dict[str, str]:
        for name, text in (
            ("relay", f"smtp://relay-user:{RELAY_PASSWORD}@127.0.0.1:{self.relay.port}?tls=none"),
            ("gateway", self.gateway.url()),
            ("secret-key", SECRET_KEY),
        ):
            (self.folder / name).write_text(text)
        seed = self.folder / "parties.yaml"
        receiver = 0 if self.strict else self.receiver.port
        seed.write_text(yaml.safe_dump(seed_of(receiver, self.kannel.port, self.trap.port, KANNEL_PASSWORD)))
        inside = ROOT / "tests" / "attack" / "inside"
        with_proxy = {
            "TRUSTED_PROXIES": "1",
            "PUBLIC_URL": "https://tms.example.org",
            "REQUIRE_HTTPS": "on",
            "SES_TOPICS": "arn:aws:sns:eu-west-1:123456789012:mails",
        }
        return {
            "SEED": str(seed),
            "EMAIL_TRANSPORT_URL_FILE": str(self.folder / "relay"),
            "SMS_TRANSPORT_URL_FILE": str(self.folder / "gateway"),
            "SECRET_KEY_FILE": str(self.folder / "secret-key"),
            "INBOUND_LISTEN": f"127.0.0.1:{free_port()}",
            "BOUNCE_DOMAIN": "bounce.example.org",
            "POSTMARK_WEBHOOK_SECRET": "s3cret-of-postmark-0123456789",
            "WEBHOOK_SPACING": "1",
            "RETRY_DELAY": "1",
            "RATE_LIMIT": "off",
            "WEB_BUFFER_BYTES": "67108864",
            "ATTACK_NAMES": str(self.names),
            "PYTHONPATH": f"{inside}{os.pathsep}{ROOT}",
            **self.provider.settings(f"admins=operator,a=manager:{NAMES[1]},reads=reader:{NAMES[1]},all=reader"),
            **(with_proxy if self.strict else {"WEBHOOK_ALLOW_PRIVATE": "on"}),
            **({"DATABASE_URL": self.database_url} if self.database_url else {}),
            **({"ATTACK_BROKEN": broken} if broken else {}),
        }

    # ------------------------------------------------------------------------------------------ the service

    @property
    def base(self) -> str:
        """The base URL of the API."""
        return self.service.base

    @cached_property
    def services(self) -> Services:
        """Services of this process, to read the database."""
        secret = {"SECRET_KEY_FILE": str(self.folder / "secret-key"), "DATABASE_POOL": "2"}
        return make_services(from_environment({**self.service.environment, **secret}))

    def start(self) -> None:
        """Starts it, and lets both accounts have one of everything."""
        previous = os.umask(0o022)  # as of a careless operator
        try:
            self.service.start()
        finally:
            os.umask(previous)
        for party in (self.victim, self.attacker):
            party.furnish(self)

    def close(self) -> None:
        """Ends it."""
        self.service.clear()
        if "services" in self.__dict__:
            self.services.database.close()
            self.services.redis.close()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of the operator."""
        command = [sys.executable, "-m", "flask", "--app", "wsgi", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=self.service.environment, capture_output=True, text=True, check=False
        )

    def told(self, *arguments: str) -> Any:
        """What a command prints as JSON."""
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    # ------------------------------------------------------------------------------------------ requests

    @cached_property
    def _session(self) -> requests.Session:
        return requests.Session()

    def ask(
        self,
        method: str,
        path: str,
        token: str | None = None,
        *,
        body: Any = None,
        form: Any = None,
        query: Any = None,
        headers: dict[str, str] | None = None,
    ) -> requests.Response:
        """The answer to a request, with a body of JSON or the fields of a form."""
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        if self.strict:
            sent["X-Forwarded-Proto"] = "https"
        answer = self._session.request(
            method,
            self.base + path,
            params=query,
            json=body,
            data=form,
            headers={**sent, **(headers or {})},
            allow_redirects=False,
            timeout=ENOUGH,
        )
        self.answers.append(answer)
        return answer

    @cached_property
    def operations(self) -> list[Operation]:
        """All that the service says it can do."""
        return operations(self.ask("GET", "/docs/openapi.json").json())

    def await_rest(self, also: Callable[[], bool] = lambda: True) -> None:
        """Returns when everything that was accepted has left, and the victim's webhook has got its events."""
        wait_until(lambda: also() and self._is_at_rest(), "everything has left")

    def _is_at_rest(self) -> bool:
        with self.services.database.read() as session:
            waiting = session.scalar(select(func.count()).select_from(QueueEntry)) or 0
            runs = select(func.count()).select_from(AutomationRun).where(AutomationRun.end_time.is_(None))
            hooks = select(func.count()).select_from(Webhook).join(Account).where(Account.name == self.victim.name)
            busy = session.scalar(hooks.where(or_(waiting_events() > 0, Webhook.lease_time.is_not(None))))
            return not waiting + (session.scalar(runs) or 0) + (busy or 0)


Peers = tuple[Relay, Gateway, Receiver, Receiver, Trap, Provider]


@contextlib.contextmanager
def stage(postgres: PostgresProcess | None, *, strict: bool, short: bool, broken: str | None = None) -> Iterator[Stage]:
    """A started installation on SQLite, or on a new database of the server."""
    with contextlib.ExitStack() as kept:
        folder = kept.enter_context(short_folder())
        url = kept.enter_context(scratch_database(postgres.url)) if postgres else None
        relay, trap = Relay(), Trap()
        kept.callback(relay.close)
        kept.callback(trap.close)
        gateway = kept.enter_context(Gateway(password=GATEWAY_PASSWORD))
        kannel, receiver = kept.enter_context(Receiver(202)), kept.enter_context(Receiver())
        peers = (relay, gateway, kannel, receiver, trap, kept.enter_context(provider()))
        made = Stage(folder, url, strict=strict, short=short, broken=broken, peers=peers)
        kept.callback(made.close)
        made.start()
        yield made
