"""The engines, as operators have them: etcd, PostgreSQL with Patroni, Redis with Sentinel, and HAProxy, by the files of
deploy/cluster."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import psycopg
import requests
from redis import Redis
from redis.exceptions import RedisError

from tests.cluster.network import SERVERS, Network
from tests.support.certificates import Authority
from tests.support.deployment import DEPLOY
from tests.support.servers import wait_until

DATABASES = ("db1", "db2", "db3")
CONSENSUS = ("etcd1", "etcd2", "etcd3")
REDISES = ("redis1", "redis2", "redis3")
BALANCER = "balancer"
HOSTS = (*DATABASES, *CONSENSUS, *REDISES, BALANCER)
POSTGRESQL = max((path.parts[-3] for path in Path("/").glob(SERVERS[1:])), key=int, default="")
"""The newest version that is installed."""
CLUSTER = DEPLOY / "cluster"
SUPERUSER, REDIS_PASSWORD = "change-this-1", "change-this-4"
PASSWORD = "change-this-5"
"""Of the role of the service."""
AS_POSTGRES = ("setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups")
PRIMARY = ("master", "primary")
"""What versions of Patroni call the role."""
START_WITHIN = 180.0
"""Seconds; long enough for a busy machine, as is the next one."""
ANSWER_WITHIN = 10.0


class Engines:
    """The processes of all engines, by their host and program. Their files are in a folder for each host."""

    def __init__(self, network: Network, folder: Path) -> None:
        self.network = network
        self.folder = folder
        self._processes: dict[tuple[str, str], subprocess.Popen[bytes]] = {}

    def start(self, api_hosts: Sequence[str]) -> None:
        """Starts all engines; returns when the cluster is healthy."""
        self.folder.chmod(0o755)  # for the user postgres
        for host in CONSENSUS:
            self._begin(host, "etcd", ["etcd", "--config-file", self._configured(host, "etcd.yml")])
        for host in REDISES:
            self.start_redis(host)
            self._begin(host, "sentinel", ["redis-sentinel", self._configured(host, "sentinel.conf")])
        for host in DATABASES:
            self.start_database(host)
        self._start_balancer(api_hosts)
        self.await_health()
        with psycopg.connect(self._server_dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE ROLE tms LOGIN CREATEDB PASSWORD '{PASSWORD}'")

    # ------------------------------------------------------------------------------------------ starting

    def _configured(self, host: str, name: str) -> str:
        """The path of the file as the host has it."""
        target = self.folder / host / name
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            target.write_text(self._filled(host, (CLUSTER / name).read_text("utf-8")))
        return str(target)

    def _filled(self, host: str, text: str) -> str:
        """The text with the host's name, and with folders of its own, which are made."""
        text = text.replace("/postgresql/15", f"/postgresql/{POSTGRESQL}")
        for name in re.findall(r"/var/(?:lib|run)/[\w/]*", text):
            (self.folder / host / name[1:]).mkdir(0o700, parents=True, exist_ok=True)
        if host in DATABASES:
            _give(self.folder / host, "postgres")
        return text.replace("THIS_HOST", host).replace("/var/", f"{self.folder}/{host}/var/")

    def _begin(self, host: str, program: str, words: Sequence[str]) -> None:
        with (self.folder / f"{host}.{program}.log").open("ab") as log:
            self._processes[host, program] = subprocess.Popen(
                self.network.command(host, words), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/"
            )

    def start_database(self, host: str) -> None:
        """Patroni, which starts PostgreSQL."""
        self._begin(host, "patroni", [*AS_POSTGRES, "patroni", self._configured(host, "patroni.yml")])

    def start_redis(self, host: str) -> None:
        """Debian's program is the same for Redis and Sentinel, and does what its name says; the package redis-server
        would put one on the PATH, which `make run` and the tests then prefer."""
        program = self.folder / host / "redis-server"
        config = Path(self._configured(host, "redis.conf"))
        if not program.exists():
            program.symlink_to(shutil.which("redis-sentinel") or "")
            if host == REDISES[0]:
                config.write_text(re.sub(r"^replicaof.*\n", "", config.read_text(), flags=re.MULTILINE))
        self._begin(host, "redis", [str(program), str(config)])

    def _start_balancer(self, api_hosts: Sequence[str]) -> None:
        """HAProxy with the head of the one file and the backend of the other, for the API hosts that there are."""
        folder = self.folder / BALANCER
        folder.mkdir()
        authority = Authority(folder)
        authority.write(self.folder / "authority.pem")
        authority.server(BALANCER)
        head = (DEPLOY / "haproxy.cfg").read_text("utf-8").partition("\nbackend tms\n")[0]
        text = head.replace("/etc/haproxy/certs/", f"{folder}/{BALANCER}.pem") + "\n"
        for line in (CLUSTER / "backend.cfg").read_text("utf-8").splitlines(keepends=True):
            server = re.match(r"\s+server \S+ (\w+):", line)
            text += line if server is None or server[1] in api_hosts else ""
        (folder / "haproxy.cfg").write_text(text)
        self._begin(BALANCER, "haproxy", ["haproxy", "-W", "-n", "2000", "-f", str(folder / "haproxy.cfg")])

    def start_haproxy(self, host: str) -> None:
        """HAProxy beside an application host, which leads to the primary and to the master of Redis."""
        self._begin(host, "haproxy", ["haproxy", "-W", "-f", self._configured(host, "engines.cfg")])

    def balanced_urls(self, database_url: str) -> dict[str, str]:
        """The settings by which a host reaches the engines through the HAProxy beside it."""
        name = database_url.partition("?")[0].rpartition("/")[2]
        return {
            "DATABASE_URL": f"postgresql://tms:{PASSWORD}@127.0.0.1:5432/{name}",
            "REDIS_URL": f"redis://:{REDIS_PASSWORD}@127.0.0.1:6379/0",
        }

    # ------------------------------------------------------------------------------------------ what there is

    def _members(self, hosts: Iterable[str] = DATABASES) -> dict[str, dict[str, Any]]:
        """Database host -> what Patroni's REST API says of it, for those that answer."""
        answers = {}
        for host in hosts:
            with suppress(requests.RequestException):
                answers[host] = requests.get(f"http://{host}:8008/patroni", timeout=ANSWER_WITHIN).json()
        return answers

    def primary(self) -> str:
        """The host that is the primary."""
        return _single("the primary", self._primaries)

    def _primaries(self, hosts: Iterable[str] = DATABASES) -> list[str]:
        return [host for host, member in self._members(hosts).items() if member.get("role") in PRIMARY]

    def has_primary_besides(self, former: str) -> bool:
        """Whether another host than that, which may be cut off, has become the primary."""
        return bool(self._primaries(host for host in DATABASES if host != former))

    def has_master_besides(self, former: str) -> bool:
        """Whether all Sentinels name another master than that."""
        names = self._masters()
        return len(names) == len(REDISES) and former not in names

    def synchronous_standby(self) -> str:
        """The host whose confirmation commits wait for."""
        return _single("the synchronous standby", self._synchronous_standbys)

    def _synchronous_standbys(self) -> list[str]:
        return [host for host, member in self._members().items() if member.get("sync_standby")]

    def await_health(self) -> None:
        """Returns when there is a primary with a synchronous standby and another one, and a master with replicas."""
        wait_until(self._is_healthy, "the cluster is healthy", START_WITHIN)

    def _is_healthy(self) -> bool:
        members = self._members().values()
        leaders = [member for member in members if member.get("role") in PRIMARY]
        is_redundant = len(leaders) == 1 and len(leaders[0].get("replication", ())) == len(DATABASES) - 1
        is_synchronous = sum(bool(member.get("sync_standby")) for member in members) == 1
        return is_redundant and is_synchronous and self._is_redis_healthy()

    def _is_redis_healthy(self) -> bool:
        names = self._masters()
        if len(names) < len(REDISES) or len(set(names)) > 1:
            return False
        with suppress(RedisError, OSError), self._redis(names[0]) as master:
            return int(master.info("replication")["connected_slaves"]) == len(REDISES) - 1
        return False

    def _masters(self) -> list[str]:
        """The host of the master, by each Sentinel that answers."""
        names = []
        for host in REDISES:
            with (
                suppress(RedisError, OSError),
                Redis(host, 26379, socket_timeout=ANSWER_WITHIN, decode_responses=True) as sentinel,
            ):
                names.append(sentinel.sentinel_get_master_addr_by_name("tms")[0])
        return names

    def master(self) -> str:
        """The host of the Redis that the Sentinels call the master."""
        return _single("the master of Redis", lambda: set(self._masters()))

    def _redis(self, host: str) -> Redis:
        return Redis(host, 6379, password=REDIS_PASSWORD, socket_timeout=ANSWER_WITHIN)

    def empty_redis(self) -> None:
        """Removes all keys."""
        with self._redis(self.master()) as master:
            master.flushall()

    # ------------------------------------------------------------------------------------------ reaching them

    def server_url(self, database: str = "postgres") -> str:
        """The URL of a database on whichever host is the primary."""
        options = f"host={','.join(DATABASES)}&target_session_attrs=read-write"
        return f"postgresql+psycopg://tms:{PASSWORD}@/{database}?{options}"

    def _server_dsn(self) -> str:
        hosts = f"host={','.join(DATABASES)} target_session_attrs=read-write"
        return f"{hosts} dbname=postgres user=postgres password={SUPERUSER}"

    @property
    def redis_url(self) -> str:
        """The URL of the Redis that the Sentinels name."""
        return f"redis+sentinel://:{REDIS_PASSWORD}@{','.join(f'{host}:26379' for host in REDISES)}/tms/0"

    # ------------------------------------------------------------------------------------------ breaking them

    def switch_over(self, target: str) -> None:
        """A planned switchover, as an operator asks for it, again until the hosts are ready for it."""
        wait_until(lambda: self.primary() == target or self._asks_for(target), "the switchover is carried out")

    def _asks_for(self, target: str) -> bool:
        config = self._configured(self.primary(), "patroni.yml")
        words = ["patronictl", "-c", config, "switchover", "tms"]
        asked = ("--leader", self.primary(), "--candidate", target, "--scheduled", "now", "--force")
        options = [word.replace("--leader", _leader_option()) for word in asked]
        # What it answers is printed, so that a switchover that never happens says why.
        return subprocess.run([*words, *options], check=False).returncode == 0

    def postmaster(self, host: str) -> int:
        """The process id of the host's PostgreSQL."""
        folder = self.folder / host / "var/lib/postgresql" / POSTGRESQL / "tms"
        return int((folder / "postmaster.pid").read_text().split()[0])

    def kill(self, host: str, *programs: Literal["redis", "sentinel", "etcd", "patroni"]) -> None:
        """Kills programs of a host."""
        for program in programs:
            process = self._processes[host, program]
            process.send_signal(signal.SIGKILL)
            process.wait()


def _single(role: str, hosts: Callable[[], Collection[str]]) -> str:
    """The host that has the role, once there is exactly one: on a busy machine some may not answer in time."""
    named: Collection[str] = ()

    def is_single() -> bool:
        nonlocal named
        named = hosts()
        return len(named) == 1

    wait_until(is_single, f"one host is {role}", START_WITHIN)
    (host,) = named
    return host


def _leader_option() -> str:
    """`--leader`, which Patroni before 3.2 calls `--master`."""
    told = subprocess.run(["patronictl", "switchover", "--help"], capture_output=True, text=True, check=False).stdout
    return "--leader" if "--leader" in told else "--master"


def _give(folder: Path, user: str) -> None:
    """Makes the user own the folder and what is in it."""
    for path in (folder, *folder.rglob("*")):
        shutil.chown(path, user, user)
