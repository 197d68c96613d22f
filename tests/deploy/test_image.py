"""The steps of the Containerfile and the services of the compose file, without a container engine (engine.py)."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from app.distribution import VERSION
from app.settings import own_redis_socket
from tests.deploy.engine import Container, Image, Place
from tests.deploy.network import Network
from tests.deploy.system_calls import refused_calls, trace_calls
from tests.support.deployment import ASSIGNMENT, DEPLOY, ROOT, own_services
from tests.support.own_postgres import OwnPostgres
from tests.support.redis_process import running_redis
from tests.support.servers import short_folder, wait_until

SECRETS = {
    "database_url": "postgresql://tms:secret@postgres/tms",
    "secret_key": "the secret key of the test of the containers",
    "email_transport_url": "smtp://relay:2525",
}
REQUEST = """\
import sys, json, urllib.request
url, headers, body = json.load(sys.stdin)
request = urllib.request.Request(url, body and body.encode(), headers)
with urllib.request.urlopen(request) as answer:
    print(json.dumps([answer.status, answer.read().decode()]))
"""


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    made = Image()
    try:
        made.build()
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="module")
def place(image: Image) -> Iterator[Place]:
    network = Network()
    with short_folder() as folder:
        folder.chmod(0o755)
        for name in ("volume", "secrets"):
            (folder / name).mkdir(mode=0o755)
        for name, value in SECRETS.items():
            (folder / "secrets" / name).write_text(value)
            (folder / "secrets" / name).chmod(0o444)
        yield Place(image, network, folder / "volume", folder / "secrets")
    network.close()


@contextmanager
def inside(network: Network, ready: str, *arguments: str) -> Iterator[None]:
    """A program of this machine in the network of the containers; it has started when it prints that word, if any."""
    command = [*network.enter, sys.executable, "-u", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if ready:
                assert ready in process.stdout.readline()
            yield
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def around(place: Place, own_postgres_empty: OwnPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """PostgreSQL, Valkey and a relay under their names; the folder of the mails that the relay got."""
    mails = tmp_path_factory.mktemp("relay") / "mails"
    url = make_url(own_postgres_empty.url)
    with ExitStack() as stack:
        redis = stack.enter_context(running_redis())
        sockets = {
            5432: Path(str(url.query["host"])) / f".s.PGSQL.{url.port or 5432}",
            6379: own_redis_socket(redis.data_dir),
        }
        for port, path in sockets.items():
            arguments = ("-m", "tests.deploy.forward", str(port), str(path))
            stack.enter_context(inside(place.network, "forwarding", *arguments))
        relay = ("-m", "aiosmtpd", "-n", "-l", "127.0.0.1:2525", "-c", "aiosmtpd.handlers.Mailbox", str(mails))
        stack.enter_context(inside(place.network, "", *relay))
        yield mails


@pytest.fixture(scope="module")
def own_postgres_empty(own_postgres: OwnPostgres) -> OwnPostgres:
    """A server with the user and the empty database that POSTGRES_USER and POSTGRES_DB make."""
    own_postgres.run("CREATE ROLE tms LOGIN PASSWORD 'secret';")
    own_postgres.run("CREATE DATABASE tms OWNER tms TEMPLATE template0 ENCODING 'UTF8';")
    return own_postgres


@pytest.fixture(scope="module")
def containers(place: Place, around: Path) -> Iterator[dict[str, Container]]:
    """All services, started as compose does: the others after the migration."""
    settings = dict(ASSIGNMENT.findall((DEPLOY / ".env.example").read_text("utf-8")))
    made = {name: Container(place, name, one, settings) for name, one in own_services().items()}
    try:
        made["migrate"].start()
        assert made["migrate"].wait() == 0, made["migrate"].output()
        for name, container in made.items():
            if name != "migrate":
                container.start()
        yield made
    finally:
        for container in made.values():
            container.kill()


def test_the_image_has_the_command_and_nothing_of_the_checkout(image: Image, place: Place) -> None:
    (service,) = [one for name, one in own_services().items() if name == "scheduler"]
    container = Container(place, "version", {**service, "environment": {}}, {})
    container.start(["--version"])
    assert (container.wait(), container.output()) == (0, f"tms {VERSION}\n")
    assert not (image.layer / "src").exists()
    assert not list((image.layer / "opt" / "tms").glob("lib/*/site-packages/tests"))


def test_every_service_becomes_healthy_and_writes_to_its_volume_and_tmpfs_alone(
    containers: dict[str, Container],
) -> None:
    for name, container in containers.items():
        if name != "migrate":
            wait_until(container.is_healthy, f"{name} is healthy: {container.output()}")
    for folder in ("/", "/opt/tms/bin", "/etc", "/run/secrets", "/var/lib"):
        refused = containers["sends"].run(["touch", f"{folder}/file"])
        assert refused.returncode != 0, folder
    assert containers["sends"].run(["touch", "/tmp/file", "/var/lib/tms/file"]).returncode == 0
    status = containers["sends"].run(["cat", "/proc/1/status"]).stdout
    rights = dict(re.findall(r"^(Uid|CapPrm|CapBnd|NoNewPrivs):\s+(\w+)", status, re.MULTILINE))
    assert rights == {"Uid": "10001", "CapPrm": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1"}


def ask(place: Place, path: str, headers: dict[str, str], body: str | None = None) -> tuple[int, str]:
    """A request to the API from the machine that runs the containers."""
    question = json.dumps([f"http://127.0.0.1:8000{path}", headers, body])
    done = subprocess.run(
        [*place.network.enter, sys.executable, "-c", REQUEST],
        input=question,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    status, text = json.loads(done.stdout)
    return status, text


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
    assert ask(place, "/readyz", proxied)[0] == 200
    made = containers["api"].run(
        ["tms", "init", "--domain", "acme.example", "--owner", "ann@acme.example", "--trust", "--json"]
    )
    assert made.returncode == 0, made.stderr
    path, headers, body = first_mail(json.loads(made.stdout))
    assert ask(place, path, {**headers, **proxied}, body)[0] == 202
    wait_until(lambda: len(list((around / "new").glob("*"))) == 1, "the mail is at the relay")


@pytest.mark.skipif(not all(map(shutil.which, ("strace", "systemd-analyze"))), reason="there is no strace or systemd")
def test_no_process_needs_what_the_sandbox_of_the_units_refuses(containers: dict[str, Container]) -> None:
    """They have started, sent and answered by now. At the end, that a refused call would be seen."""
    running = [container for name, container in containers.items() if name != "migrate"]
    assert {container.name: container.refused_calls() for container in running} == {one.name: [] for one in running}
    change_owner = ["python", "-c", "import os; os.chown('/tmp/control', -1, -1)"]
    containers["sends"].run([*trace_calls(refused_calls(), "/tmp/control"), *change_owner])
    wait_until(lambda: "chown" in containers["sends"].run(["cat", "/tmp/control"]).stdout, "the call is seen")


def test_every_service_ends_when_it_is_asked_to(containers: dict[str, Container]) -> None:
    ended = {name: container.stop() for name, container in containers.items() if name != "migrate"}
    assert ended == dict.fromkeys(ended, 0), {name: containers[name].output()[-2000:] for name in ended}
