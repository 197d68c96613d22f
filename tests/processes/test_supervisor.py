"""The supervisor restarts processes that end, and stops all of them in order and in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.launcher import supervisor as supervisor_module
from app.launcher import supervisor as supervisors
from app.launcher.supervisor import Child, Supervisor
from tests.support.clocks import clock_of
from tests.support.servers import PATIENCE, wait_until


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    """Independent of inherited settings: nohup ignores SIGHUP, a script's background SIGINT."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    new_supervisor = Supervisor()
    new_supervisor.catch_signals()
    yield new_supervisor
    new_supervisor.stop()
    for number, handler in before.items():
        signal.signal(number, handler)


def shell(name: str, script: str, *, essential: bool = False) -> Child:
    return Child(name, ["/bin/sh", "-c", script], os.environ, essential)


def sleeper(name: str = "sleeper") -> Child:
    return shell(name, "exec sleep 3600")


def pid(child: Child) -> int:
    assert child._process is not None
    return child._process.pid


def runs(number: int) -> bool:
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def in_a_while(action: object, seconds: float = 0.3) -> None:
    """Calls the function while the main thread waits in the supervisor."""
    threading.Timer(seconds, action).start()  # type: ignore[arg-type]


def stop_when(condition: Callable[[], bool], what: str) -> None:
    """Requests the stop as soon as the condition is true, while the main thread watches."""

    def stop() -> None:
        try:
            wait_until(condition, what)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop).start()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_supervisor_with_success(supervisor: Supervisor, number: signal.Signals) -> None:
    supervisor.start(sleeper())
    in_a_while(lambda: os.kill(os.getpid(), number))
    assert supervisor.watch() == 0


def test_an_ignored_sighup_stays_ignored(supervisor: Supervisor) -> None:
    """SIGHUP is ignored under `nohup make run`."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    supervisor.catch_signals()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_signal_before_the_supervisor_runs_counts(supervisor: Supervisor) -> None:
    supervisor.start(sleeper())
    os.kill(os.getpid(), signal.SIGTERM)
    assert supervisor.watch() == 0


def test_an_essential_process_that_keeps_ending_ends_the_supervisor_with_an_error(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("app.launcher.supervisor.MIN_PAUSE", 0.01)
    supervisor.start(sleeper())
    supervisor.start(shell("api", f"echo start >> {tmp_path}/starts; exit 3", essential=True))
    assert supervisor.watch() == 1
    assert (tmp_path / "starts").read_text().split() == ["start"] * supervisors.MAX_DEATHS
    assert "api keeps ending (3), so the service ends" in caplog.text


def test_any_other_process_may_keep_ending(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.launcher.supervisor.MIN_PAUSE", 0.001)
    worker = shell("worker", "exit 3")
    supervisor.start(worker)
    stop_when(lambda: worker.deaths > supervisors.MAX_DEATHS, "it has ended often")
    assert supervisor.watch() == 0


def test_children_of_a_dead_process_are_ended_before_its_restart(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A child may hold the port. It is asked to end, so that it can finish its work, and killed if it does not."""
    monkeypatch.setattr("app.launcher.supervisor.MIN_PAUSE", 0.01)
    monkeypatch.setattr(supervisor_module, "GROUP_GRACE", PATIENCE)
    clock = clock_of(monkeypatch, supervisor_module, supervisors)
    log, orphans, trapped = (tmp_path / name for name in ("log", "orphans", "trapped"))
    note = f"echo yes >> {trapped}"
    finish = f"sleep 0.1; echo finished >> {log}; exit"
    gentle = f"(trap '{finish}' TERM; {note}; while :; do sleep 0.02; done) & echo $! >> {orphans}"
    stubborn = f"(trap '' TERM; {note}; exec sleep 3600) & echo $! >> {orphans}"
    api = shell(
        "api", f"[ -e {orphans} ] || {{ {gentle}; {stubborn}; }}; echo start >> {log}; exec sleep 3600", essential=True
    )
    supervisor.start(api)
    wait_until(lambda: log.exists() and log.read_text() == "start\n", "it has started")
    wait_until(lambda: trapped.exists() and trapped.read_text() == "yes\n" * 2, "its children wait for the signal")
    left = [int(line) for line in orphans.read_text().split()]
    os.kill(pid(api), signal.SIGKILL)

    def has_started_again() -> bool:
        if "finished" in log.read_text():
            clock.ahead = PATIENCE
        return log.read_text().count("start") == 2

    stop_when(has_started_again, "it has started again")
    assert supervisor.watch() == 0
    assert log.read_text().split() == ["start", "finished", "start"]
    assert not any(runs(process) for process in left)


def test_a_worker_that_dies_is_restarted(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.launcher.supervisor.MIN_PAUSE", 0.05)
    worker = sleeper()
    supervisor.start(worker)
    first = pid(worker)
    os.kill(first, signal.SIGKILL)

    def stop_when_revived() -> None:
        wait_until(lambda: pid(worker) != first, "the worker is there again")
        os.kill(os.getpid(), signal.SIGTERM)

    in_a_while(stop_when_revived, 0)
    assert supervisor.watch() == 0
    assert worker.alive


def test_a_restart_that_the_system_refuses_is_tried_again(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """However often: it says nothing about the process, even if the service is useless without it."""
    monkeypatch.setattr("app.launcher.supervisor.MIN_PAUSE", 0.001)
    monkeypatch.setattr("app.launcher.supervisor.MAX_PAUSE", 0.01)
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec sleep 3600\n")
    program.chmod(0o755)
    worker = sleeper("worker")
    supervisor.start(worker)
    api = Child("api", [str(program)], os.environ, essential=True)
    supervisor.start(api)
    first = pid(api)
    program.rename(tmp_path / "away")
    os.kill(first, signal.SIGKILL)

    def has_started_again() -> bool:
        if caplog.text.count("api cannot be started ([Errno 2]") > supervisors.MAX_DEATHS and not program.exists():
            (tmp_path / "away").rename(program)
        return (process := api._process) is not None and process.pid != first

    stop_when(has_started_again, "it has started again")
    assert supervisor.watch() == 0
    assert (api.deaths, worker.deaths) == (1, 0)


def test_pauses_before_restarts_grow_to_half_a_minute_and_are_reset_by_a_stable_run() -> None:
    worker = sleeper()
    pauses = []
    for _ in range(8):
        worker.plan_restart()
        pauses.append(worker.pause)
        worker._started = time.monotonic()
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    worker._started = time.monotonic() - 61
    worker.plan_restart()
    assert worker.pause == 0.5


def test_redis_is_stopped_after_the_processes_that_use_it(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis is stopped as soon as the other processes have ended, however much longer their grace period is."""
    for grace in ("GRACE", "LAST_GRACE"):
        monkeypatch.setattr(supervisors, grace, 10 * PATIENCE)
    log = tmp_path / "log"
    for name in ("redis", "worker", "api"):
        ready = tmp_path / name
        script = f"trap 'sleep 0.2; echo {name} >> {log}; exit' TERM; touch {ready}; while :; do sleep 0.05; done"
        supervisor.start(shell(name, script), first=name == "redis")
        wait_until(ready.exists, f"{name} is ready")
    supervisor.stop()
    assert sorted(log.read_text().split()[:2]) == ["api", "worker"]
    assert log.read_text().split()[2] == "redis"


def test_a_process_that_does_not_end_is_killed_with_its_children(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisors, "GRACE", 0.3)
    file = tmp_path / "grandchild"
    stubborn = shell("stubborn", f"trap '' TERM; sleep 3600 & echo $! > {file}.new; mv {file}.new {file}; wait")
    supervisor.start(stubborn)
    wait_until(file.exists, "it has started a process of its own")
    supervisor.stop()
    assert not stubborn.alive
    wait_until(lambda: not runs(int(file.read_text())), "what it started is gone")


def test_grace_periods_fit_into_ten_seconds() -> None:
    """SIGTERM stops everything within 10 seconds."""
    assert supervisors.GRACE + supervisors.LAST_GRACE < 9


LAUNCHER = """
import os, sys, time
from app.launcher.supervisor import Child
child = Child("sleeper", ["/bin/sleep", "3600"], os.environ)
child.start()
print(child._process.pid, flush=True)
time.sleep(3600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only the Linux kernel tells children of their parent's death")
def test_processes_end_with_a_killed_launcher() -> None:
    with subprocess.Popen([sys.executable, "-c", LAUNCHER], stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        child = int(launcher.stdout.readline())
        assert runs(child)
        launcher.kill()
    wait_until(lambda: not runs(child), "the child is gone")
