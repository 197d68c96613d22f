"""The steps of the Containerfile and the services of the compose file, without a container engine (engine.py)."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from app.db.phases import newest_revision
from app.distribution import VERSION
from tests.deploy.compose import Compose
from tests.deploy.engine import Container, Image, Place
from tests.deploy.network import Network
from tests.deploy.surroundings import ask, surroundings
from tests.deploy.system_calls import refused_calls, trace_calls
from tests.support.certificates import Authority
from tests.support.deployment import own_services
from tests.support.documented import documented
from tests.support.own_postgres import OwnPostgres
from tests.support.servers import short_folder, wait_until
from tests.support.stand_ins import StandIns, stand_ins

SECRETS, SETTINGS, START, MORE, NEW_VERSION = documented("docs/install.md#containers")


@pytest.fixture(scope="module")
def place(image: Image) -> Iterator[Place]:
    network = Network()
    with short_folder() as folder:
        folder.chmod(0o755)
        for name in ("volume", "secrets"):
            (folder / name).mkdir(mode=0o755)
        Authority(folder / "volume").server("smtp")  # writes the certificate that the settings name
        yield Place(image, network, folder / "volume", folder / "secrets")
    network.close()


@pytest.fixture(scope="module")
def around(place: Place, own_postgres_empty: OwnPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """PostgreSQL, Valkey, a relay and a name server; the folder of the mails that the relay got."""
    mails = tmp_path_factory.mktemp("relay") / "mails"
    url = make_url(own_postgres_empty.url)
    socket = Path(str(url.query["host"])) / f".s.PGSQL.{url.port or 5432}"
    with surroundings(place.network, mails, {5432: socket}):
        yield mails


@pytest.fixture(scope="module")
def own_postgres_empty(own_postgres: OwnPostgres) -> OwnPostgres:
    """A server with the user and the empty database that POSTGRES_USER and POSTGRES_DB make."""
    own_postgres.run("CREATE ROLE tms LOGIN PASSWORD 'secret';")
    own_postgres.run("CREATE DATABASE tms OWNER tms TEMPLATE template0 ENCODING 'UTF8';")
    return own_postgres


@dataclass(frozen=True)
class Operator:
    """Types the commands of the documentation in a checkout."""

    checkout: Path
    programs: StandIns
    compose: Compose

    def type(self, commands: str) -> str:
        """Runs a block, all of whose commands must succeed; returns its output."""
        (script := self.checkout / "script").write_text(commands, "utf-8")
        path = f"{self.checkout}/bin:{os.environ['PATH']}"
        with (self.checkout / "printed").open("wb") as printed:
            code = self.programs.run(
                ["bash", "-euo", "pipefail", str(script)],
                **{"cwd": self.checkout, "env": {"PATH": path, **self.programs.environ}},
                **{"stdout": printed, "stderr": subprocess.STDOUT},
            )
        output = (self.checkout / "printed").read_text("utf-8")
        assert code == 0, f"{commands}\n{output}"
        return output


@pytest.fixture(scope="module")
def operator(place: Place, around: Path, checkout: Path) -> Iterator[Operator]:
    """An operator whose machine has a relay without a password, and receives mail."""
    compose = Compose(place)
    (checkout / "bin").mkdir()
    with short_folder() as folder, stand_ins(folder, compose.answer) as programs:
        programs.add(checkout / "bin" / "docker")
        typing = Operator(checkout, programs, compose)
        typing.type(SECRETS.replace("smtp://user:password@relay.example.com:587", "smtp://relay.example.com:2525"))
        typing.type(SETTINGS)
        settings = re.sub(r"^#([A-Z])", r"\1", (checkout / "deploy" / ".env").read_text("utf-8"), flags=re.MULTILINE)
        (checkout / "deploy" / ".env").write_text(f"{settings}DNS_RESOLVER=127.0.0.1:5353\n", "utf-8")
        try:
            yield typing
        finally:
            compose.kill()


@pytest.fixture(scope="module")
def printed(operator: Operator) -> str:
    """What the commands print that start all services and make the first account."""
    return operator.type(START)


@pytest.fixture(scope="module")
def containers(operator: Operator, printed: str) -> dict[str, Container]:
    """All services but the migration, which they waited for."""
    assert "API key:" in printed
    return operator.compose.containers


def test_the_image_has_the_command_and_nothing_of_the_checkout(image: Image, place: Place) -> None:
    image.build_once()
    (service,) = [service_of_compose for name, service_of_compose in own_services().items() if name == "scheduler"]
    container = Container(place, "version", {**service, "environment": {}}, {})
    container.start(["--version"])
    assert (container.wait(), container.output()) == (0, f"tms {VERSION}\n")
    assert not (image.layer / "src").exists()
    assert not list((image.layer / "opt" / "tms").glob("lib/*/site-packages/tests"))


def test_the_secrets_of_the_documentation_fit_each_other_and_can_be_read_by_the_containers(
    operator: Operator, containers: dict[str, Container]
) -> None:
    secrets = {path.name: path.read_text("utf-8").strip() for path in (operator.checkout / "deploy/secrets").iterdir()}
    assert make_url(secrets["database_url"]).password == secrets["postgres_password"]
    assert len(secrets["secret_key"]) >= 32
    read = containers["sends"].run(["sh", "-c", "cat /run/secrets/*"]).stdout.split()
    assert sorted(read) == sorted(secrets.values())


def test_every_service_becomes_healthy_and_writes_to_its_volume_and_tmpfs_alone(
    containers: dict[str, Container],
) -> None:
    assert containers.keys() == own_services().keys() - {"migrate"}
    for name, container in containers.items():
        wait_until(container.is_healthy, f"{name} is healthy: {container.output()}")
    for folder in ("/", "/opt/tms/bin", "/etc", "/run/secrets", "/var/lib"):
        refused = containers["sends"].run(["touch", f"{folder}/file"])
        assert refused.returncode != 0, folder
    assert containers["sends"].run(["touch", "/tmp/file", "/var/lib/tms/file"]).returncode == 0
    status = containers["sends"].run(["cat", "/proc/1/status"]).stdout
    rights = dict(re.findall(r"^(Uid|CapPrm|CapBnd|NoNewPrivs):\s+(\w+)", status, re.MULTILINE))
    assert rights == {"Uid": "10001", "CapPrm": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1"}


def first_mail(facts: dict[str, Any]) -> tuple[str, dict[str, str], str]:
    """The curl line of `tms init`: its path, headers and body."""
    words = shlex.split(facts["first_mail"].replace("\\\n", ""))
    url = next(word for word in words if word.startswith("https://"))
    headers = dict(value.split(": ", 1) for option, value in pairwise(words) if option == "-H")
    body = next(value for option, value in pairwise(words) if option in ("-d", "--data"))
    return url.removeprefix("https://api.example.com"), headers, body


def test_a_first_mail_reaches_the_relay(place: Place, containers: dict[str, Container], around: Path) -> None:
    """The proxy in front is that of TRUSTED_PROXIES=1."""
    proxied = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"}
    wait_until(containers["api"].is_healthy, "the API is healthy")
    assert ask(place.network, "/readyz", proxied)[0] == 200
    made = containers["api"].run(
        ["tms", "init", "--domain", "acme.example", "--owner", "ann@acme.example", "--trust", "--json"]
    )
    assert made.returncode == 0, made.stderr
    path, headers, body = first_mail(json.loads(made.stdout))
    assert ask(place.network, path, {**headers, **proxied}, body)[0] == 202
    wait_until(lambda: len(list((around / "new").glob("*"))) == 1, "the mail is at the relay")


@pytest.mark.skipif(not all(map(shutil.which, ("strace", "systemd-analyze"))), reason="there is no strace or systemd")
def test_no_process_needs_what_the_sandbox_of_the_units_refuses(containers: dict[str, Container]) -> None:
    """The processes have started, sent and answered by the time of this test. The test then checks that a refused call
    would be seen."""
    assert {name: container.refused_calls() for name, container in containers.items()} == {
        name: [] for name in containers
    }
    change_owner = ["python", "-c", "import os; os.chown('/tmp/control', -1, -1)"]
    containers["sends"].run([*trace_calls(refused_calls(), "/tmp/control"), *change_owner])
    wait_until(lambda: "chown" in containers["sends"].run(["cat", "/tmp/control"]).stdout, "the call is seen")


def test_more_senders_and_a_new_version_are_started_beside_what_runs(
    operator: Operator, containers: dict[str, Container]
) -> None:
    before = {name: container.pid for name, container in containers.items()}
    operator.type(MORE)
    assert containers.keys() - before.keys() == {"sends-2", "sends-3"}
    for name in ("sends-2", "sends-3"):
        wait_until(containers[name].is_healthy, f"{name} is healthy: {containers[name].output()}")
    assert f"the database is at revision {newest_revision()}" in operator.type(NEW_VERSION)
    assert {name: containers[name].pid for name in before} == before


def test_every_service_ends_when_it_is_asked_to(containers: dict[str, Container]) -> None:
    ended = {name: container.stop() for name, container in containers.items()}
    assert ended == dict.fromkeys(ended, 0), {name: containers[name].output()[-2000:] for name in ended}
