"""`make run` from outside: one command, one screen, nothing lost, no files or processes left
(docs/run.md#make-run)."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
import yaml
from redis import Redis

from app.private_folder import OURS
from tests.e2e.sink import Sink, mail_sink
from tests.support.blocks import blocks
from tests.support.launched import PATIENT, ROOT, SEED, LaunchedService
from tests.support.redis_process import RedisProcess
from tests.support.servers import PATIENCE, free_port, redis_server, scratch_database, short_folder, wait_until
from tests.support.yardstick import slowness

REDIS = r"redis-server|app\.launcher\.python_redis"
LAUNCHER = r"app\.launcher\s*$"
Launch = Callable[..., LaunchedService]


@pytest.fixture
def launch() -> Iterator[Launch]:
    """Creates services, and removes what is left of them."""
    made: list[LaunchedService] = []
    with short_folder() as folder:

        def make(name: str = "service", **settings: str) -> LaunchedService:
            (folder / name).mkdir()
            made.append(LaunchedService(folder / name, **PATIENT, **settings))
            return made[-1]

        yield make
        for service in made:
            service.clear()


@contextmanager
def started(folder_name: str, **settings: str) -> Iterator[LaunchedService]:
    """A service for several tests; it is removed also when it does not start."""
    with short_folder() as folder:
        (service_folder := folder / folder_name).mkdir()
        service = LaunchedService(service_folder, **PATIENT, **settings)
        try:
            service.start()
            yield service
        finally:
            service.clear()


@pytest.fixture(scope="module")
def demo() -> Iterator[LaunchedService]:
    """A service with the demo, in a folder whose name is hard to quote, for tests that leave it as it was."""
    with started("Ünï 100%41 #1? & 'co'", SEED="", WEBHOOK_SPACING="1") as service:
        wait_until(lambda: "curl " in service.output(), "the screen is printed")
        yield service


@pytest.fixture(scope="module")
def running() -> Iterator[LaunchedService]:
    """A service with one account, for tests after which it runs as before."""
    with started("service") as service:
        yield service


class RelayedService:
    """The service of several tests that stop and kill it, with a mail server that counts. Each finds it running: the
    next one starts what a test has ended, and has a new one made when a test failed, whatever that one left behind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = 0
        self.service: LaunchedService | None = None

    def running(self, port: int) -> LaunchedService:
        """The service, which answers. Starts it if it has ended, and makes a new one if there is none."""
        if self.service is None:
            self._made += 1
            (service_folder := self._folder / f"service{self._made}").mkdir()
            relay = f"smtp://127.0.0.1:{port}"
            self.service = LaunchedService(service_folder, **PATIENT, EMAIL_TRANSPORT_URL=relay, SEND_CONNECTIONS="2")
            self.service.start()
        elif not self.service.pids():
            self.service.start()
        wait_until(self.service.is_ready, "the service is ready")
        return self.service

    def clear(self) -> None:
        """Leaves nothing behind."""
        if self.service is not None:
            self.service.clear()
        self.service = None


@pytest.fixture(scope="module")
def relay() -> Iterator[tuple[Sink, int]]:
    """The mail server and its port."""
    with mail_sink(port := free_port()) as sink:
        yield sink, port


@pytest.fixture
def sink(relay: tuple[Sink, int]) -> Sink:
    """What the mail server accepts in this test, at once unless the test says otherwise."""
    relay[0].seconds = 0.0
    relay[0].forget()
    return relay[0]


@pytest.fixture(scope="module")
def relayed() -> Iterator[RelayedService]:
    with short_folder() as folder:
        relayed_service = RelayedService(folder)
        yield relayed_service
        relayed_service.clear()


@pytest.fixture
def service(
    relayed: RelayedService, relay: tuple[Sink, int], request: pytest.FixtureRequest
) -> Iterator[LaunchedService]:
    """One that runs, which the test may stop and kill, and which sends to `sink`."""
    failed = request.session.testsfailed
    try:
        running_one = relayed.running(relay[1])
    except BaseException:
        relayed.clear()
        raise
    yield running_one
    if request.session.testsfailed > failed:
        relayed.clear()


def addresses(count: int) -> list[str]:
    return [f"person{number}@example.com" for number in range(count)]


def paste(screen: str) -> requests.Response:
    """The answer to the last curl line that was printed."""
    line = re.findall(r"^  curl (.+?[^\\])$", screen, re.MULTILINE | re.DOTALL)[-1]
    url, _, authorization, _, content_type, _, body = shlex.split(line.replace("\\\n", ""))
    headers = dict(header.split(": ", 1) for header in (authorization, content_type))
    return requests.post(url, data=body.encode(), headers=headers, timeout=PATIENCE)


# ---------------------------------------------------------------------------------------------- start


def in_a_terminal(service: LaunchedService, until: str) -> str:
    """What somebody sees who starts the service in a terminal, waits for that text and presses Ctrl-C."""
    launcher, terminal = pty.fork()
    if launcher == 0:
        os.chdir(ROOT)
        os.execve(sys.executable, [sys.executable, "-m", "app.launcher"], service.environment)
    output, asked = b"", False
    while select.select([terminal], [], [], PATIENCE)[0]:
        try:
            output += os.read(terminal, 65_536)
        except OSError:  # the terminal has no other end any more
            break
        if not asked and until.encode() in output:
            os.write(terminal, b"\x03")
            asked = True
    assert os.waitstatus_to_exitcode(os.waitpid(launcher, 0)[1]) == 0, output.decode()
    return output.decode().replace("\r\n", "\n")


def test_a_terminal_shows_one_screen_and_the_log_is_in_a_file(launch: Launch) -> None:
    service = launch(SEED="")
    seen = in_a_terminal(service, "Ready: ")
    assert seen.startswith("\n  The service is running. Ctrl-C stops it.\n")
    assert seen.rstrip().removesuffix("^C").rstrip().endswith("  Ready: mail leaves now.")
    assert f"Log           {service.data}/service.log\n" in seen
    assert "worker started" in (service.data / "service.log").read_text("utf-8")
    assert "worker started" not in seen


def test_the_screen_names_a_relay_that_cannot_be_reached(launch: Launch) -> None:
    service = launch(EMAIL_TRANSPORT_URL=f"smtp://127.0.0.1:{(port := free_port())}?tls=none")
    seen = in_a_terminal(service, "Not ready: ")
    refusal = f"the relay 127.0.0.1 port {port} cannot be reached (Connection refused)"
    assert f"Not ready: {refusal}. Mail is accepted, and waits." in seen


def test_the_curl_command_of_the_screen_sends_a_message(demo: LaunchedService) -> None:
    """The newcomer's way: start, copy the command, find the mail in the folder that the screen names, see the event.
    The URL of Redis is derived from the folder's path, and the screen shows the path as it is."""
    screen, before = demo.output(), demo.mails()
    assert f"API           {demo.base}/v1/" in screen
    assert f"Mail goes to  {demo.data}/mail\n" in screen
    response = paste(screen)
    assert response.status_code == 202, response.text
    wait_until(lambda: demo.mails() == before + 1, "the mail is there")
    wait_until(lambda: re.search(r"verified .*sent", demo.output()) is not None, "the event is printed")


def test_the_contact_of_the_page_is_welcomed_by_the_automation_of_the_demo(demo: LaunchedService) -> None:
    (command,) = [block.text for block in blocks(ROOT / "docs" / "run.md") if "gold" in block.text]
    url, _, authorization, _, content_type, _, body = shlex.split(command.replace("\\\n", ""))[1:]
    headers = dict(header.split(": ", 1) for header in (authorization, content_type))
    before = demo.mails()
    path = url.removeprefix("http://127.0.0.1:8000")
    response = requests.post(demo.base + path, data=body.encode(), headers=headers, timeout=PATIENCE)
    assert response.status_code == 201, response.text
    wait_until(lambda: demo.mails() == before + 1, "the mail is there")


def test_the_published_key_of_a_demo_is_revoked_when_others_can_reach_it(launch: Launch) -> None:
    """The key is revoked even in a database that was seeded with it before. The command on the screen still works."""
    service = launch(SEED="")
    service.start()
    wait_until(lambda: "curl " in service.output(), "the screen is printed")
    published = service.output()
    assert paste(published).status_code == 202
    service.stop()
    service.environment.update(HOST="0.0.0.0", PUBLIC_URL=service.base, REQUIRE_HTTPS="off")
    service.start()
    wait_until(lambda: service.output().count("The service is running") == 2, "the screen is printed")
    assert "published keys of the demo were replaced by random ones" in service.output()
    assert paste(published).status_code == 401
    assert paste(service.output()).status_code == 202


def test_files_of_the_service_are_readable_by_its_user_only(demo: LaunchedService) -> None:
    """Database, mails, journals, sockets and keys, whatever process created them."""
    before = demo.mails()
    assert paste(demo.output()).status_code == 202
    wait_until(lambda: demo.mails() == before + 1, "the mail is there")
    made = [demo.data, *demo.data.rglob("*")]
    assert len(made) > 10
    assert [path for path in made if (mode := mode_of(path)) is not None and mode & 0o077] == []
    assert [path.name for path in demo.data.iterdir() if not OURS.fullmatch(path.name)] == []


def mode_of(path: Path) -> int | None:
    """Nothing for a file that has gone meanwhile: the service is at work."""
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return None


def test_a_second_start_is_fast_and_finds_all_data(service: LaunchedService, sink: Sink) -> None:
    """Less than 5 seconds to the first answered request, here of work, all processes together and one after
    the other; the stop lost nothing."""
    service.send(addresses(3), group_name="Before a stop")
    wait_until(lambda: len(sink.accepted) == 3, "the mails are sent")
    service.stop()
    service.start()
    assert service.processor_seconds() < 7 * slowness()  # the launcher, the API and a sender import the service
    group = service.group("Before a stop")
    assert (group["sent"], group["delivered"]) == (3, 3)
    assert service.get("/v1/lists")["size"] == 1


def test_a_send_accepted_just_before_a_stop_is_sent_after_the_next_start(service: LaunchedService, sink: Sink) -> None:
    sink.seconds = 0.5  # all would take 25 seconds
    service.send(addresses(100), group_name="During a stop")
    wait_until(lambda: len(sink.accepted) > 2, "sending has begun")
    service.stop()
    assert 2 < len(sink.accepted) < 100
    sink.seconds = 0.0
    service.start()
    wait_until(lambda: len(sink.accepted) == 100, "all is sent")
    wait_until(lambda: service.group("During a stop")["delivered"] == 100, "all is counted")
    assert set(sink.accepted.values()) == {1}


def test_it_runs_with_postgresql_and_an_external_redis(launch: Launch, postgres: str) -> None:
    with scratch_database(postgres) as database, redis_server() as redis:
        service = launch(DATABASE_URL=database.replace("+psycopg", ""), REDIS_URL=redis)
        service.start()
        service.send(addresses(2))
        wait_until(lambda: service.mails() == 2, "the mails are there")
        assert not (service.data / "tms.sqlite3").exists()
        assert service.pids(REDIS) == []
        service.stop()


def test_mails_leave_while_redis_hangs_or_is_away(launch: Launch) -> None:
    with short_folder() as folder:
        redis = RedisProcess(folder)
        redis.start()
        service = launch(REDIS_URL=redis.url)
        service.start()
        with redis.frozen():
            service.send(addresses(2))
            wait_until(lambda: service.mails() == 2, "the mails are there while Redis hangs")
        redis.stop()
        service.send(addresses(1))
        wait_until(lambda: service.mails() == 3, "the mail is there without Redis")
        service.stop()


def test_a_machine_without_a_redis_uses_the_one_in_python(launch: Launch) -> None:
    """The Redis in Python may be killed like any other process, without loss."""
    service = launch(EMBEDDED_REDIS="python")
    service.start()
    warnings = [line for line in service.output().splitlines() if "in production install redis-server" in line]
    assert len(warnings) == 1
    service.send(addresses(2))
    wait_until(lambda: service.mails() == 2, "the mails are there")
    os.kill(service.only_pid(r"app\.launcher\.python_redis"), signal.SIGKILL)
    service.send(addresses(3))
    wait_until(lambda: service.mails() == 5, "the mails are there")
    wait_until(service.is_ready, "the service is ready again")
    service.stop()
    service.start()
    assert service.processor_seconds() < 7 * slowness()  # the launcher, the API and a sender import the service


def test_two_services_on_one_machine_are_independent(launch: Launch, running: LaunchedService) -> None:
    first = launch()
    first.start()
    mails, groups = running.mails(), running.get("/v1/transactional-groups")["size"]
    first.send(addresses(1))
    wait_until(lambda: first.mails() == 1, "the mail is there")
    assert running.mails() == mails
    assert running.get("/v1/transactional-groups")["size"] == groups
    first.stop()
    assert running.is_ready()


def test_a_filter_of_1000_long_values_fits_into_a_request(running: LaunchedService) -> None:
    """Up to 1000 elements in a comma list. A much longer line is refused, not read for ever."""
    values = ",".join(f"{number:0200}" for number in range(1000))
    assert running.get("/v1/lists", **{"name:in": values})["size"] == 0
    response = requests.get(f"{running.base}/v1/lists", params={"name:in": values * 2}, timeout=PATIENCE)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")


# ---------------------------------------------------------------------------------------------- refusals


def one_line(output: str) -> str:
    """What the launcher wrote; make adds a line of its own."""
    (line,) = [line for line in output.splitlines() if not line.startswith("make: ")]
    return line


def test_a_port_in_use_is_reported_in_one_line(launch: Launch) -> None:
    service = launch()
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", service.port))
        listener.listen()
        assert one_line(service.refused()) == (
            f"cannot start: port {service.port} on 127.0.0.1 is taken: stop what listens there, or set PORT"
        )


def test_a_second_service_in_a_data_folder_is_refused(launch: Launch, running: LaunchedService) -> None:
    second = launch(DATA_DIR=str(running.data))
    assert "the service already runs in DATA_DIR=" in one_line(second.refused())
    assert running.is_ready()


def test_an_invalid_setting_is_reported_in_one_line(launch: Launch) -> None:
    error = one_line(launch(RATE_LIMIT="many").refused())
    assert error == "cannot start: RATE_LIMIT=many: must be N/second, N/minute, N/hour or off"


def test_an_invalid_seed_starts_nothing_and_can_be_corrected(launch: Launch) -> None:
    """A first start that failed is followed by another first start."""
    service = launch()
    seed = service.folder / "seed.yaml"
    seed.write_text(seed.read_text().replace("type: Email", "type: Emial"))
    assert "accounts[0].lists[0].fields[0].type" in one_line(service.refused())
    seed.write_text(yaml.safe_dump(SEED))
    service.start()
    assert service.get("/v1/lists")["size"] == 1


# ---------------------------------------------------------------------------------------------- trouble


def test_a_killed_sender_loses_nothing_and_duplicates_at_most_messages_in_flight(
    service: LaunchedService, sink: Sink
) -> None:
    """A sender may duplicate one message in flight per connection (docs/crash-safety.md)."""
    sink.seconds = 0.05
    service.send(addresses(60), group_name="Killed")
    for enough in (5, 20, 35):
        wait_until(lambda enough=enough: len(sink.accepted) > enough, "sending goes on")
        os.kill(service.only_pid("jobs.worker sends"), signal.SIGKILL)
    wait_until(lambda: len(sink.accepted) == 60, "all is sent")
    wait_until(lambda: service.group("Killed")["delivered"] == 60, "all is counted")
    assert sum(sink.accepted.values()) <= 60 + 3 * 2


def test_a_flushed_redis_loses_nothing(service: LaunchedService, sink: Sink) -> None:
    sink.seconds = 0.1
    service.send(addresses(40))
    with Redis(unix_socket_path=str(service.data / "redis.sock")) as redis:
        wait_until(lambda: len(sink.accepted) > 5, "sending has begun")
        redis.flushall()
    service.send(["late@example.com"])
    wait_until(lambda: len(sink.accepted) == 41, "all is sent")
    assert set(sink.accepted.values()) == {1}


def test_a_killed_redis_is_restarted_and_nothing_is_lost(running: LaunchedService) -> None:
    before = running.mails()
    os.kill(running.only_pid(REDIS), signal.SIGKILL)
    running.send(addresses(3))
    wait_until(lambda: running.mails() == before + 3, "the mails are there")
    wait_until(running.is_ready, "the service is ready again")


def test_a_killed_api_server_is_restarted(running: LaunchedService) -> None:
    """Leftovers of the killed server neither keep the port nor answer next to the new server."""
    wait_until(lambda: len(running.pids("gunicorn")) == 3, "there are the master and both of its workers")
    before, mails = running.pids("gunicorn"), running.mails()
    os.kill(before[0], signal.SIGKILL)
    wait_until(lambda: not set(before) & set(running.pids("gunicorn")), "the old ones are gone")
    wait_until(running.is_ready, "it is ready again")
    wait_until(lambda: len(running.pids("gunicorn")) == len(before), "it has all its processes")
    assert running.process.poll() is None
    running.send(addresses(1))
    wait_until(lambda: running.mails() == mails + 1, "the mail is there")


# ---------------------------------------------------------------------------------------------- stop


@pytest.mark.parametrize(
    "signals",
    [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM)],
    ids=["sigterm twice", "both"],
)
def test_signals_to_the_process_group_end_everything(
    service: LaunchedService, signals: tuple[signal.Signals, ...]
) -> None:
    """Ctrl-C alone ends everything, too: the other tests stop their services by it."""
    service.stop(*signals)


def test_a_signal_to_make_alone_ends_everything(service: LaunchedService) -> None:
    service.process.terminate()
    service.process.wait(PATIENCE)
    wait_until(lambda: not service.pids(), "nothing is left")


def test_a_killed_launcher_leaves_no_processes(service: LaunchedService) -> None:
    os.kill(service.only_pid(LAUNCHER), signal.SIGKILL)
    assert service.process.wait(PATIENCE) != 0
    wait_until(lambda: not service.pids(), "nothing is left")


def test_a_start_right_after_the_launcher_was_killed_waits_for_its_processes(
    service: LaunchedService, sink: Sink
) -> None:
    service.send(addresses(100))
    os.kill(service.only_pid(LAUNCHER), signal.SIGKILL)
    assert service.process.wait(PATIENCE) != 0
    service.start()
    wait_until(lambda: len(sink.accepted) == 100, "the mails are sent")
    service.stop()


def test_a_stop_during_the_start_ends_everything(launch: Launch) -> None:
    service = launch()
    service.begin()
    service.only_pid(LAUNCHER)
    wait_until(lambda: service.pids(REDIS) != [], "the start has begun")
    service.stop()
