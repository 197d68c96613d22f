"""The data folder and the files of processes are accessible to their owner only."""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from app.private_folder import make_private
from app.settings import from_environment
from tests.support.forked import ForkedProcess
from tests.support.sources import ROOT


def permissions(path: Path) -> int:
    return path.stat().st_mode & 0o777


def wide(folder: Path, *names: str) -> list[Path]:
    """Files that everybody may read, in a folder that everybody may list."""
    folder.mkdir(exist_ok=True)
    paths = [folder / name for name in names]
    for path in paths:
        path.write_text("x" * 40)
        path.chmod(0o644)
    folder.chmod(0o755)
    return paths


def test_a_new_folder_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private(tmp_path / "a" / "data")
    finally:
        os.umask(before)
    assert permissions(tmp_path / "a" / "data") == 0o700


def test_an_older_folder_of_the_service_is_restricted_with_its_files(tmp_path: Path) -> None:
    database = "tms.sqlite3", "tms.sqlite3-wal"
    logs = "service.log", "service.log.1"
    paths = wide(tmp_path / "data", *database, *logs, "secret_key", ".secret_key.0a1b", "launcher.lock")
    (tmp_path / "data" / "mail").mkdir(mode=0o755)
    from_environment({"DATA_DIR": str(tmp_path / "data")})
    assert [permissions(path) for path in paths] == [0o600] * 7
    assert permissions(tmp_path / "data" / "mail") == 0o700
    assert permissions(tmp_path / "data") == 0o700


def test_a_shared_folder_keeps_its_permissions_and_our_files_in_it_are_restricted(tmp_path: Path) -> None:
    """A home folder or /tmp may be configured by mistake."""
    ours, theirs = wide(tmp_path / "home", "tms.sqlite3", "letter.txt")
    from_environment({"DATA_DIR": str(tmp_path / "home")})
    assert [permissions(path) for path in (tmp_path / "home", ours, theirs)] == [0o755, 0o600, 0o644]


def test_a_folder_with_the_sticky_bit_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    make_private(tmp_path / "tmp")
    assert permissions(tmp_path / "tmp") == 0o777


def test_the_target_of_a_link_keeps_its_permissions(tmp_path: Path) -> None:
    (elsewhere,) = wide(tmp_path / "elsewhere", "file")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "secret_key").symlink_to(elsewhere)
    make_private(tmp_path / "data")
    assert permissions(elsewhere) == 0o644


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_folder_of_another_user_keeps_its_permissions(tmp_path: Path) -> None:
    (file,) = wide(tmp_path / "data", "tms.sqlite3")
    for path in (file, tmp_path / "data"):
        os.chown(path, 12345, 12345)
    make_private(tmp_path / "data")
    assert [permissions(tmp_path / "data"), permissions(file)] == [0o755, 0o644]


def enter(door: str, folder: Path) -> None:
    """Begins as a process of that kind does, in a `ForkedProcess`, and prints the mask that it has then."""
    os.umask(0o022)
    os.environ.update(DATA_DIR=str(folder))
    with suppress(SystemExit):
        DOORS[door]()
    print(oct(os.umask(0)), file=sys.stderr)


def launch() -> None:
    """Runs the launcher up to the start of its processes."""
    service: Any = importlib.import_module("app.launcher.service")

    def refuse(_settings: object) -> None:
        raise service.StartError("enough")

    service.check_settings = refuse
    importlib.import_module("app.launcher.__main__").main()


DOORS: dict[str, Callable[[], object]] = {
    "gunicorn": lambda: runpy.run_path(str(ROOT / "gunicorn.conf.py")),
    "jobs": lambda: importlib.import_module("jobs.runtime").process_services(),
    "launcher": launch,
    "command line": lambda: importlib.import_module("wsgi"),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_process_creates_its_files_for_its_user_only(tmp_path: Path, door: str) -> None:
    log = tmp_path / "log"
    process = ForkedProcess(log, enter, door, tmp_path / "data")
    process.wait()
    assert log.read_text().splitlines()[-1] == "0o77"
