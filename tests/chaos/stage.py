"""The environment of a round: an empty database, the service with its launcher, and its peers: a relay, a gateway and a
receiver of all webhooks.

The service is started as an operator starts it, and each of its processes is found by its command line.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
import yaml
from sqlalchemy import func, make_url, select

from app.accounts.auth import hash_token
from app.db.models import ApiKey, AutomationPassedStep, AutomationStep, List
from app.services import Services, make_services
from app.settings import from_environment
from bench.processes import listens
from tests.chaos import series
from tests.chaos.disk import small_disk
from tests.chaos.facts import COUNTERS
from tests.chaos.record import WEBHOOK_SPACING, Delivery, MailStep, read_deliveries, read_mails
from tests.support.launched import ROOT, LaunchedService
from tests.support.postgres_process import PostgresProcess
from tests.support.servers import free_port, redis_server, scratch_database, short_folder, wait_until

NAMES = ("acme", "bolt", "crux")
SECRET = "the secret of all webhooks of the suite, long enough"
FIELDS = (("Email", "Email"), ("Mobile", "Mobile Phone"), ("First Name", "First Name"))
SENDERS, CONNECTIONS = 2, 2
OTHERS = 3
"""Processes besides senders and the API: the workers of webhooks and of automations, and the scheduler."""
MOST_KILLS = 10
"""How often a command is killed at most, before it must have ended."""
PROXIED = {"database": "DATABASE_URL", "redis": "REDIS_URL"}
"""What a proxy may be in front of -> the setting with its URL."""
BOUND_BY_MODES = ("setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override")
"""A prefix of a command that makes the modes of files bind what its processes write, although root starts them. They
still find the socket of PostgreSQL, which is in a folder of its user."""
START_WITHIN = 180.0
"""Seconds; long enough for a busy machine."""


@dataclass(frozen=True, slots=True)
class Account:
    """A client's account, with its lists. `number` sends its texts."""

    name: str
    number: str
    list_id: int
    series_id: int
    """The list whose contacts enter an automation."""

    @property
    def from_address(self) -> str:
        """A from address of the account's own domain."""
        return f"hello@{self.name}.example"


@dataclass(frozen=True, slots=True)
class Setup:
    """What a fault needs of the machine."""

    small_disk: bool = False
    """The data folder is on a disk of its own, small enough to be filled."""
    bound_by_modes: bool = False
    """The modes of files bind the service, although root may run it."""
    proxied: str = ""
    """What the service reaches through a proxy: its `database`, if it is PostgreSQL, or its `redis`."""


class Stage:
    """An installation of the service, and its peers."""

    peers_host = "127.0.0.1"
    """Where the service reaches its peers."""
    workers = SENDERS + OTHERS
    """Its processes besides those of the API."""

    def __init__(
        self,
        folder: Path,
        postgres: PostgresProcess | None,
        urls: Mapping[str, str],
        given: Mapping[str, str],
        *,
        seed: int,
        setup: Setup,
    ) -> None:
        """`urls` are those of database and Redis, as far as they are given, and `given` are settings besides the usual
        ones."""
        self.folder = folder
        self._postgres = postgres
        self.seed = seed
        self._urls = urls
        self._proxied = setup.proxied if PROXIED.get(setup.proxied) in urls else ""
        peers = ("relay", "gateway", "receiver", *filter(None, [self._proxied]))
        self._ports = {name: free_port() for name in peers}
        self._peers: dict[str, subprocess.Popen[bytes]] = {}
        settings = {**self._settings(), **urls, **self._proxied_url(), **given}
        prefix = BOUND_BY_MODES if setup.bound_by_modes and os.geteuid() == 0 else ()
        self.service = LaunchedService(folder, [*prefix, sys.executable, "-m", "app.launcher"], **settings)
        self.accounts: list[Account] = []
        self.tokens = {name: _token(name) for name in NAMES}
        """Account -> the key that its clients use now."""
        self.former_tokens: dict[str, list[str]] = {name: [] for name in NAMES}
        self.backups: list[tuple[float, Path]] = []
        """The moment at which each was begun, and its file."""
        self.kills: list[float] = []
        """The moments at which processes were killed or suspended."""
        self.killed_commands: list[str] = []
        self.complaints: list[str] = []
        """What the fault itself finds wrong while it happens."""
        self.forgotten: list[str] = []
        """Addresses of people."""
        self.services: Services
        """Services of this process, to read the database."""

    @property
    def on_postgresql(self) -> bool:
        return self._postgres is not None

    @property
    def postgresql(self) -> PostgresProcess:
        """The database server."""
        assert self._postgres is not None
        return self._postgres

    def _proxied_url(self) -> dict[str, str]:
        """The setting whose URL leads through the proxy."""
        if not self._proxied:
            return {}
        setting, port = PROXIED[self._proxied], self._ports[self._proxied]
        if setting == "REDIS_URL":
            return {setting: f"redis://127.0.0.1:{port}/0"}
        return {setting: f"postgresql+psycopg://postgres@127.0.0.1:{port}/{make_url(self._urls[setting]).database}"}

    @property
    def _target(self) -> str:
        """The socket of the server behind the proxy."""
        url = self._urls[PROXIED[self._proxied]]
        return urlsplit(url).path if url.startswith("unix") else f"{make_url(url).query['host']}/.s.PGSQL.5432"

    def _settings(self) -> dict[str, str]:
        file = self.folder / "accounts.yaml"
        file.write_text(yaml.safe_dump({"accounts": [self._seed_of(name) for name in NAMES]}))
        return {
            "SEED": str(file),
            "SEND_WORKERS": str(SENDERS),
            "SEND_CONNECTIONS": str(CONNECTIONS),
            "EMAIL_TRANSPORT_URL": f"smtp://{self.peers_host}:{self._ports['relay']}",
            "SMS_TRANSPORT_URL": f"smpp://service:secret@{self.peers_host}:{self._ports['gateway']}?timeout=5",
            "INBOUND_LISTEN": f"127.0.0.1:{free_port()}",
            "WEBHOOK_SPACING": f"{WEBHOOK_SPACING:g}",
            "WEBHOOK_ALLOW_PRIVATE": "on",
            "RATE_LIMIT": "off",
            "RETRY_DELAY": "2",
            "UNCERTAIN_WAIT": "5",
            "PYTHONPATH": str(ROOT),
        }

    def _seed_of(self, name: str) -> dict[str, object]:
        fields = [{"name": name, "type": kind} for name, kind in FIELDS]
        url = f"http://{self.peers_host}:{self._ports['receiver']}/{name}"
        return {
            "name": name,
            "owner_email": f"owner@{name}.example",
            "owner_confirmed": True,
            "keys": [{"name": "backend", "access_level": "standard", "token": _token(name)}],
            "domains": [f"{name}.example"],
            "sms_senders": [{"address": _number(name), "kind": "number"}],
            "lists": [
                {"name": "People", "fields": fields},
                {"name": series.LIST, "fields": [{"name": field, "type": kind} for field, kind in series.FIELDS]},
            ],
            "messages": series.messages(f"hello@{name}.example"),
            "automations": [series.automation(url)],
            "webhooks": [{"url": url, "secrets": [{"id": "k1", "secret": SECRET}]}],
        }

    @property
    def base(self) -> str:
        """The base URL of the API."""
        return self.service.base

    @property
    def data(self) -> Path:
        """The data folder of the service."""
        return self.service.data

    # ------------------------------------------------------------------------------------------ the other sides

    def start_peer(self, name: str) -> None:
        """The `relay`, the `gateway`, the `receiver` or the proxy, on the same port each time; returns when it
        listens."""
        last = [SECRET if name == "receiver" else str(self.seed)]
        if name == self._proxied:
            last = [name, self._target]
        module = "proxy" if name == self._proxied else name
        arguments = [f"tests.chaos.{module}", str(self._ports[name]), str(self.folder), *last]
        with (self.folder / f"{name}.output").open("ab") as output:
            self._peers[name] = subprocess.Popen(
                [sys.executable, "-m", *arguments], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        wait_until(lambda: listens(self._ports[name]), f"the {name} listens", START_WITHIN)

    def kill_peer(self, name: str) -> None:
        """Kills a peer at once; open connections are cut."""
        self._peers[name].kill()
        self._peers[name].wait()

    def await_mail(self) -> None:
        """Returns when the relay takes one more mail."""
        before = self.taken()
        wait_until(lambda: self.taken() > before, "mail goes out", START_WITHIN)

    def is_in_motion(self) -> bool:
        """Whether mails and texts are sent and each account has received events."""
        sent = {_delivery.account for _delivery in self._deliveries() if _delivery.status is not None}
        return self.taken() > 0 and self.texts("taken") > 0 and len(sent) == len(NAMES)

    def is_everybody_unheard(self) -> bool:
        """Whether a request to each webhook was left without an answer."""
        return len({_delivery.account for _delivery in self._deliveries() if _delivery.status is None}) == len(NAMES)

    def _deliveries(self) -> list[Delivery]:
        return read_deliveries(self.folder / "receiver.log")

    def requests_to_receiver(self) -> int:
        """How many it has read, whether or not it has answered them."""
        return len(self._deliveries())

    def taken(self) -> int:
        """Mails that the relay has accepted."""
        return sum(mail.step == "taken" for mail in read_mails(self.folder / "relay.log"))

    def texts(self, step: MailStep) -> int:
        """Texts that the gateway has accepted (`taken`), or whose receipts the service has confirmed."""
        return sum(text.step == step for text in read_mails(self.folder / "gateway.log"))

    def passed(self, step: str | None = None) -> int:
        """How many steps runs of automations have passed, or how often that step was."""
        statement = select(func.count()).select_from(AutomationPassedStep)
        if step is not None:
            named = select(AutomationStep.id).where(AutomationStep.name == step)
            statement = statement.where(AutomationPassedStep.step_id.in_(named))
        with self.services.database.read() as session:
            return session.scalars(statement).one()

    # ------------------------------------------------------------------------------------------ the service

    def start(self) -> None:
        """Starts everything; returns when the API answers."""
        for name in self._ports:
            self.start_peer(name)
        self.start_service()
        self.await_workers()
        environment = {**self.service.environment, **self._urls, "DATABASE_POOL": "2"}
        self.services = make_services(from_environment(environment))
        self.accounts = [self._account(name) for name in NAMES]

    def _account(self, name: str) -> Account:
        account_id = select(ApiKey.account_id).where(ApiKey.token_hash == hash_token(_token(name))).scalar_subquery()
        with self.services.database.read() as session:
            lists = {
                row.name: row.id
                for row in session.execute(select(List.name, List.id).where(List.account_id == account_id))
            }
        return Account(name, _number(name), lists["People"], lists[series.LIST])

    def command(
        self,
        *arguments: str,
        settings: Mapping[str, str] | None = None,
        statuses: Sequence[int] = (0,),
        code: Path = ROOT,
    ) -> Any:
        """The output of a command of an operator, which is one of those with `--json`, run by the code in a folder;
        `settings` replace some of the service."""
        ended = self._run_command(arguments, settings or {}, code)
        assert ended.returncode in statuses, f"{arguments}: {ended.stdout[-1000:]}{ended.stderr[-1000:]}"
        return json.loads(ended.stdout)

    def _run_command(
        self, arguments: Sequence[str], settings: Mapping[str, str], code: Path
    ) -> subprocess.CompletedProcess[str]:
        environment = {**self.service.environment, **settings}
        command = [sys.executable, "-m", "flask", "--app", "wsgi", *arguments, "--json"]
        return subprocess.run(command, cwd=code, env=environment, capture_output=True, text=True, check=False)

    def command_with_kills(
        self,
        chance: random.Random,
        *arguments: str,
        settings: Mapping[str, str] | None = None,
        done: str = "",
        code: Path = ROOT,
    ) -> Any:
        """The output of the command, which is killed and repeated, up to three times as far each time, until it has
        ended before it was killed; None if it refuses with the words `done`, since one that was killed had done it."""
        for farthest in (6 * 3**number for number in range(MOST_KILLS)):
            number, seconds = chance.randint(1, farthest), chance.choice((0.0, chance.uniform(0.001, 0.2)))
            hook = {"CHAOS_KILL": f"{number} {seconds}", **hooked(self.folder, ["killed-command"])}
            ended = self._run_command(arguments, {**(settings or {}), **hook}, code)
            if ended.returncode > 0 and done and done in ended.stderr:
                return None
            if ended.returncode >= 0:
                assert ended.returncode == 0, f"{arguments}: {ended.stdout[-1000:]}{ended.stderr[-1000:]}"
                return json.loads(ended.stdout)
            self.killed_commands.append(f"{' '.join(arguments[:2])} at statement {number}, after {seconds:.3f} s")
        raise AssertionError(f"{arguments} do not end: {self.killed_commands}")

    def start_service(self) -> None:
        """Starts the launcher; returns when its API answers, not that of an earlier one which is about to end. Raises
        `AssertionError` with its last output if it ends."""
        earlier = set(self.pids(""))
        self.service.begin()
        deadline = time.monotonic() + START_WITHIN
        while earlier.intersection(self.pids("")) or not self.answers():
            assert self.service.process.poll() is None, self.service.output()[-2000:]
            assert time.monotonic() < deadline, "the service does not start"
            time.sleep(0.05)

    def revive(self) -> list[str]:
        """Restarts a service that has ended by itself, which is an error, so that the rest can be checked."""
        status = self.service.process.poll()
        if status is None:
            return []
        self.start_service()
        return [f"with status {status}"]

    def start_rival(self, **settings: str) -> subprocess.Popen[bytes]:
        """Starts a second service with the same data folder, which writes to the same log."""
        with self.service.log.open("ab") as log:
            return subprocess.Popen(
                self.service.command,
                cwd=ROOT,
                env={**self.service.environment, **settings},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def await_workers(self) -> None:
        """Returns when all processes besides the API are at work, including those that were restarted."""
        wait_until(self._is_complete, "all workers and the scheduler have started", START_WITHIN)

    def _is_complete(self) -> bool:
        pids = self.pids(r"jobs\.(worker|schedule)")
        lines = (line for line in self.service.output().splitlines() if line.startswith("{") and "started" in line)
        started = {line["process"] for line in map(json.loads, lines) if line["logger"].startswith("jobs.")}
        return len(pids) == self.workers and started.issuperset(pids)

    def answers(self) -> bool:
        """Whether the API answers requests."""
        with contextlib.suppress(requests.RequestException):
            return requests.get(f"{self.base}/healthz", timeout=5).status_code == 200
        return False

    def status_with(self, token: str) -> int:
        """The status of the answer to a request with this key."""
        headers = {"Authorization": f"Bearer {token}"}
        return requests.get(f"{self.base}/v1/lists", headers=headers, timeout=START_WITHIN).status_code

    def shown_groups(self) -> dict[int, dict[str, int]]:
        """Id of a group -> its counters as the API shows them."""
        counters_by_group = {}
        for account in self.accounts:
            headers = {"Authorization": f"Bearer {self.tokens[account.name]}"}
            path = f"{self.base}/v1/transactional-groups?limit=1000"
            answer = requests.get(path, headers=headers, timeout=START_WITHIN)
            for group in answer.json()["_embedded"]["transactional-groups"]:
                counters_by_group[group["id"]] = {name: group[name] for name in COUNTERS}
        return counters_by_group

    def is_open(self, link: str) -> bool:
        """Whether the link for unsubscribing leads to the page that asks for a confirmation."""
        response = requests.get(self.base + urlsplit(link).path, timeout=START_WITHIN)
        return response.status_code == 200 and "does not work" not in response.text

    def pids(self, command: str) -> list[int]:
        """Ids of the service's processes whose command line matches the pattern, the oldest first."""
        return self.service.pids(command)

    def kill(self, *pids: int) -> None:
        """Sends SIGKILL; processes that have ended are ignored."""
        self.signal(signal.SIGKILL, *pids)

    def signal(self, number: signal.Signals, *pids: int) -> None:
        """Sends the signal to each process that still exists."""
        if number in (signal.SIGKILL, signal.SIGSTOP):
            self.kills.append(time.time())
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def clear(self) -> None:
        """Terminates everything that this stage has started."""
        self.service.clear()
        for name in self._peers:
            self.kill_peer(name)
        if hasattr(self, "services"):
            self.services.database.close()
            self.services.redis.close()


def _token(name: str) -> str:
    return f"tms_the-key-of-{name}-in-the-suite-of-faults-0123456789"


def _number(name: str) -> str:
    return f"6140000000{NAMES.index(name)}"


def _urls(postgres: PostgresProcess | None, proxied: str, kept: contextlib.ExitStack) -> dict[str, str]:
    """The URLs of a new database of the server, and of a new Redis where a proxy is to be in front of it."""
    urls = {}
    if postgres:
        urls["DATABASE_URL"] = kept.enter_context(scratch_database(postgres.url))
    if proxied == "redis":
        urls["REDIS_URL"] = kept.enter_context(redis_server())
    return urls


def hooked(folder: Path, hooks: Sequence[str]) -> dict[str, str]:
    """Every Python process imports `sitecustomize` first, if its path has one."""
    if not hooks:
        return {}
    path = f"{ROOT / 'tests' / 'chaos' / 'broken'}{os.pathsep}{ROOT}"
    return {"CHAOS_HOOKS": ",".join(hooks), "CHAOS_CLOCK": str(folder / "clock"), "PYTHONPATH": path}


@contextlib.contextmanager
def stage(
    postgres: PostgresProcess | None, settings: Mapping[str, str], seed: int, setup: Setup, hooks: Sequence[str] = ()
) -> Iterator[Stage]:
    """A stage that has not been started, on SQLite or a new database of the server."""
    with contextlib.ExitStack() as kept:
        folder = kept.enter_context(short_folder())
        if setup.small_disk:
            kept.enter_context(small_disk(folder / "data"))
        urls = _urls(postgres, setup.proxied, kept)
        made = Stage(folder, postgres, urls, {**settings, **hooked(folder, hooks)}, seed=seed, setup=setup)
        kept.callback(made.clear)
        yield made
