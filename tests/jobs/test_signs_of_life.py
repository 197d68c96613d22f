"""The main loop of each process shows signs of life (docs/health.md#signs-of-life); that of the API:
tests/server/test_worker.py."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.db.migrate import upgrade
from app.infrastructure import liveness
from app.settings import Settings
from jobs import inbound, schedule, worker
from tests.conftest import test_settings
from tests.support.forked import ForkedProcess
from tests.support.servers import short_folder, wait_until
from tests.support.service_manager import ServiceManager, service_manager

ALIVE = "WATCHDOG=1"


def run_sender() -> None:
    worker.main(["sends"])


def run_scheduler_that_hangs() -> None:
    """Runs a scheduler whose third look for work does not end."""
    looks = iter(range(3))
    look = schedule.tick

    def tick(*arguments: object) -> None:
        if next(looks) == 2:
            (Path(os.environ["DATA_DIR"]) / "hangs").touch()
            threading.Event().wait()
        look(*arguments)  # type: ignore[arg-type]

    schedule.TICK = 0.01
    schedule.tick = tick  # type: ignore[assignment]
    schedule.main()


def run_without_database() -> None:
    os.environ["DATABASE_URL"] = "postgresql://nobody@127.0.0.1:1/nothing"
    worker.main(["sends"])


def run_with(environ: dict[str, str], main: Callable[[], None]) -> None:
    """The process, as systemd starts it."""
    os.environ.update(environ)
    importlib.reload(liveness)
    main()


@pytest.fixture(scope="module")
def settings(redis_url: str) -> Iterator[Settings]:
    with short_folder() as folder:
        made = test_settings(folder, DATABASE_URL=f"sqlite:///{folder}/tms.sqlite3", REDIS_URL=redis_url)
        upgrade(made.database_url)
        yield made


@contextmanager
def started(settings: Settings, folder: Path, main: Callable[[], None]) -> Iterator[ServiceManager]:
    """What the process tells while the block runs."""
    variables = {
        "DATA_DIR": str(settings.data_dir),
        "DATABASE_URL": settings.database_url,
        "REDIS_URL": settings.redis_url,
    }
    with service_manager(folder) as manager:
        process = ForkedProcess(folder / "log", run_with, {**variables, **manager.environ}, main)
        try:
            yield manager
        finally:
            process.kill()


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as made:
        yield made


@pytest.mark.parametrize("main", [run_sender, schedule.main, inbound.main])
def test_a_process_is_ready_once_and_then_shows_life_again_and_again(
    settings: Settings, folder: Path, main: Callable[[], None]
) -> None:
    with started(settings, folder, main) as manager:
        first = manager.told()
        if first == [ALIVE]:  # a loop may turn before the line behind the start of the loop is reached
            first = manager.told()
        assert first == ["READY=1", "STATUS=running"]
        for _ in range(2):
            assert manager.told() == [ALIVE]


def test_a_loop_that_hangs_shows_no_more_life(settings: Settings, folder: Path) -> None:
    with started(settings, folder, run_scheduler_that_hangs) as manager:
        manager.wait_for(ALIVE)
        wait_until((settings.data_dir / "hangs").exists, "the loop hangs")
        assert not manager.hears_something(0.5)


def test_a_worker_that_waits_for_the_database_asks_for_more_time(settings: Settings, folder: Path) -> None:
    with started(settings, folder, run_without_database) as manager:
        assert manager.told() == ["STATUS=waiting for the database", "EXTEND_TIMEOUT_USEC=120000000"]
