"""Metrics of all processes add up in `/metrics`; problems with the disk or the folder end no process."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.infrastructure.liveness import create_locked
from app.infrastructure.shared_counts import COUNTS_SUFFIX, TOTAL_FILE, Counts, SharedCounts, add
from tests.processes.counting import COUNTER, count_on_command
from tests.support.forked import ForkedProcess, context
from tests.support.servers import wait_until
from tests.support.sources import ROOT

SENT = ("tms_recipient_outcomes_total", (("account_class", "live"), ("type", "email"), ("outcome", "sent")))


class CountingProcess:
    """A process that counts on command."""

    def __init__(self, data_dir: Path, number: int) -> None:
        self._log = data_dir / f"{number}.log"
        self._line, other = context.Pipe()
        self._process = ForkedProcess(self._log, count_on_command, other, data_dir)
        other.close()

    def ask(self, line: str) -> str:
        """Sends a command and returns the answer."""
        self._line.send(line)
        answer: str = self._line.recv()
        return answer

    def end(self) -> str:
        """Ends the process in order and returns its standard error."""
        self._line.close()
        assert self._process.wait() == 0
        return self._log.read_text()

    def kill(self) -> None:
        """Kills the process."""
        self._process.kill()


Start = Callable[[], CountingProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made: list[CountingProcess] = []

    def begin() -> CountingProcess:
        made.append(CountingProcess(tmp_path, len(made)))
        return made[-1]

    yield begin
    for process in made:
        process.kill()


def run(folder: Path, commands: str, first: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """A process that starts afresh, counts and ends; `first` is what it does before."""
    program = f"{first}\nimport sys\nfrom tests.processes import counting\ncounting.main(sys.argv[1])"
    command = [sys.executable, "-c", program, str(folder)]
    environment = {**os.environ, **environ}
    return subprocess.run(
        command, cwd=ROOT, env=environment, input=commands, capture_output=True, text=True, check=True
    )


def counted(folder: Path) -> float:
    """The count as a process that counts nothing sees it."""
    return sum(counts.get(SENT, 0.0) for counts in SharedCounts(folder, dict).others())


def test_a_scrape_shows_what_all_processes_counted(tmp_path: Path, start: Start) -> None:
    first, two = start(), start()
    first.ask("3")
    two.ask("4")
    first.ask("write")
    assert two.ask("show") == f"{COUNTER} 7.0"
    wait_until(lambda: counted(tmp_path / "metrics") == 7, "the thread shares by itself")


def test_an_orderly_end_loses_no_counts(tmp_path: Path) -> None:
    done = run(tmp_path, "5\n")
    assert (done.stdout, done.stderr) == ("counted\n", "")
    assert counted(tmp_path / "metrics") == 5


def test_counts_of_dead_processes_are_added_to_one_file(tmp_path: Path, start: Start) -> None:
    for count in range(1, 5):
        process = start()
        process.ask(str(count))
        process.ask("write")
        process.kill()
    assert start().ask("show").endswith(" 10.0")
    folder = tmp_path / "metrics"
    assert json.loads((folder / TOTAL_FILE).read_text())["counts"] == [
        [SENT[0], [list(label) for label in SENT[1]], 10.0]
    ]
    assert [path.name for path in folder.glob(f"*{COUNTS_SUFFIX}")] == []
    suffixes = sorted(path.suffix for path in folder.iterdir() if path.stem != "recent")
    assert suffixes == [".alive", ".json", ".lock"]


def test_a_file_that_was_added_and_not_deleted_yet_counts_once(tmp_path: Path) -> None:
    """A dead process's counts are added to the total before its file is deleted. The process that adds them may be
    killed between the two steps, or a reader may come then."""
    (tmp_path / f"dead{COUNTS_SUFFIX}").write_text(json.dumps({"counts": [[SENT[0], SENT[1], 2]]}))
    (tmp_path / "dead.alive").touch()
    assert counted(tmp_path) == 2
    (tmp_path / TOTAL_FILE).write_text(json.dumps({"counts": [[SENT[0], SENT[1], 2]], "folded": ["dead"]}))
    assert counted(tmp_path) == 2
    SharedCounts(tmp_path, dict)._merge_dead()
    assert counted(tmp_path) == 2
    assert not (tmp_path / f"dead{COUNTS_SUFFIX}").exists()


def test_gauges_are_those_of_running_processes_and_timestamps_the_latest_of_all(tmp_path: Path) -> None:
    gauge, moment = ("tms_transport_slots", (("state", "all"),)), ("tms_sweep_timestamp_seconds", ())
    for name, time in (("running", 3), ("dead", 5)):
        shared = {"counts": [[*moment, time]], "gauges": [[*gauge, 4]]}
        (tmp_path / f"{name}{COUNTS_SUFFIX}").write_text(json.dumps(shared))
    (tmp_path / "dead.alive").touch()
    descriptor = create_locked(tmp_path / "running.alive")
    reader = SharedCounts(tmp_path, dict)
    assert list(reader.others_gauges()) == [{gauge: 4.0}]
    reader._merge_dead()
    summed: Counts = {}
    for counts in reader.others():
        add(summed, counts)
    assert summed == {moment: 5.0}
    os.close(descriptor)


@pytest.mark.parametrize("total", ['{"folded": 5}', '{"folded": {}, "counts": {}}', '{"counts": [[1, [[2, 3]], 4]]}'])
def test_a_damaged_total_loses_no_other_counts(tmp_path: Path, total: str) -> None:
    (tmp_path / TOTAL_FILE).write_text(total)
    (tmp_path / f"whole{COUNTS_SUFFIX}").write_text(json.dumps({"counts": [[SENT[0], SENT[1], 2]]}))
    assert counted(tmp_path) == 2


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"counts": 3}', '{"counts": [[1, 2]]}', '{"counts": [["a", [], "x"]]}']
)
def test_an_unreadable_file_loses_its_own_counts_only(tmp_path: Path, content: str) -> None:
    (tmp_path / f"broken{COUNTS_SUFFIX}").write_text(content)
    (tmp_path / f"whole{COUNTS_SUFFIX}").write_text(json.dumps({"counts": [[SENT[0], SENT[1], 2]]}))
    assert counted(tmp_path) == 2


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A real disk of 64 KiB, where the system allows to mount one."""
    folder.mkdir()
    mounted = sys.platform == "linux" and shutil.which("mount") is not None
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if not mounted or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_ends_no_process_and_loses_no_count(tmp_path: Path, start: Start) -> None:
    """If the file were mapped into memory, a full disk would kill the process: the system has no other way to report
    it."""
    with small_disk(tmp_path / "metrics") as disk:
        before = start()
        before.ask("1")
        before.ask("write")
        with (disk / "ballast").open("wb") as ballast, contextlib.suppress(OSError):
            while os.write(ballast.fileno(), b"x" * 1024):
                pass
        during = start()
        for process in (before, during):
            assert process.ask("2") == "counted"
            assert process.ask("write") == "written"
        assert during.ask("show").endswith(" 3.0")
        (disk / "ballast").unlink()
        for process in (before, during):
            process.ask("write")
        assert counted(disk) == 5
        for process in (before, during):
            stderr = process.end().splitlines()
            assert len([line for line in stderr if "cannot be shared" in line]) == 1, stderr


NO_ROOM = """
import resource, signal
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
"""


def test_a_process_without_write_permission_counts_for_itself(tmp_path: Path) -> None:
    """A process may not write on a full disk, either. This test needs no disk that is mounted for it."""
    (tmp_path / "secret_key").write_text("x" * 40)
    done = run(tmp_path, "3\nwrite\nshow\n", NO_ROOM)
    assert done.stdout.splitlines()[:2] == ["counted", "written"]
    assert done.stdout.splitlines()[2].endswith(" 3.0")
    assert done.stderr.count("cannot be shared") == 1


def test_a_deleted_folder_is_created_again(tmp_path: Path, start: Start) -> None:
    process = start()
    process.ask("1")
    process.ask("write")
    shutil.rmtree(tmp_path / "metrics")
    process.ask("1")
    process.ask("write")
    process.ask("write")
    assert counted(tmp_path / "metrics") == 2


def test_a_folder_that_cannot_be_created_prevents_no_counting(tmp_path: Path, start: Start) -> None:
    (tmp_path / "metrics").write_text("not a folder")
    process = start()
    assert process.ask("4") == "counted"
    assert process.ask("show").endswith(" 4.0")
    assert process.end().count("cannot be shared") == 1


def test_files_of_the_metrics_library_are_never_used(tmp_path: Path) -> None:
    files = tmp_path / "of the library"
    files.mkdir()
    done = run(tmp_path, "1\nshow\n", PROMETHEUS_MULTIPROC_DIR=str(files), prometheus_multiproc_dir=str(files))
    assert done.stdout == f"counted\n{COUNTER} 1.0\n"
    assert list(files.iterdir()) == []


SHARED_MAPS = """
import app.http.server.worker, app.infrastructure.metrics
for line in open("/proc/self/maps"):
    if "rw-s" in line:
        print(line.split(maxsplit=5)[5].strip())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_api_process_maps_no_file_into_memory() -> None:
    done = subprocess.run([sys.executable, "-c", SHARED_MAPS], capture_output=True, text=True, check=True)
    assert set(done.stdout.splitlines()) == {"/dev/zero (deleted)"}


def test_own_counts_are_not_mistaken_for_those_of_another_process(tmp_path: Path) -> None:
    counts: Counts = {SENT: 3.0}
    shared = SharedCounts(tmp_path, lambda: counts)
    shared.write()
    assert sum(other.get(SENT, 0.0) for other in shared.others()) == 0
    assert counted(tmp_path) == 3
