"""The data folder and the files of processes are accessible to their owner only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.private_folder import make_private
from app.settings import from_environment

ROOT = Path(__file__).parents[3]


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
    paths = wide(tmp_path / "data", "tms.sqlite3", "tms.sqlite3-wal", "secret_key", "launcher.lock")
    (tmp_path / "data" / "mail").mkdir(mode=0o755)
    from_environment({"DATA_DIR": str(tmp_path / "data")})
    assert [permissions(path) for path in paths] == [0o600] * 4
    assert permissions(tmp_path / "data" / "mail") == 0o700
    assert permissions(tmp_path / "data") == 0o700


def test_a_shared_folder_keeps_its_permissions_and_our_files_in_it_are_restricted(tmp_path: Path) -> None:
    """Such as a home folder or /tmp, configured by mistake."""
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


EVERY_DOOR = """
import os, runpy, sys
os.umask(0o022)
sys.argv = sys.argv[1:]
if sys.argv[0] == "gunicorn":
    sys.path.insert(0, ".")
    try:
        runpy.run_path("gunicorn.conf.py")
    except SystemExit:
        pass
elif sys.argv[0] == "jobs":
    import jobs.runtime
    try:
        jobs.runtime.process_services()
    except SystemExit:
        pass
elif sys.argv[0] == "launcher":
    import app.launcher.__main__ as launcher
    launcher.prepare.check_settings = lambda _settings: (_ for _ in ()).throw(launcher.StartError("enough"))
    launcher.main()
else:
    import wsgi
print(oct(os.umask(0)))
"""


@pytest.mark.parametrize("door", ["gunicorn", "jobs", "launcher", "command line"])
def test_every_process_creates_its_files_for_its_user_only(tmp_path: Path, door: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EVERY_DOOR, door],
        cwd=ROOT,
        env={**os.environ, "DATA_DIR": str(tmp_path / "data"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "0o77", done.stderr
