"""A disk without room: a backup leaves nothing that looks like one, and a restore leaves nothing at all."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import func, select, text

from app.backup.archive import open_archive
from app.backup.manifest import NotABackup
from app.backup.restore import restore_backup
from app.db.copies.snapshot import CopyError
from app.db.models import Recipient
from tests.restore.conftest import Installation, Installer, is_untouched
from tests.support.rows import Rows
from tests.support.tenants import new_tenant

KILLED = """\
import sys
from app.backup.archive import new_archive
from pathlib import Path
with new_archive(Path(sys.argv[1]), Path("/")) as archive:
    print("writing", flush=True)
    sys.stdin.read()
"""


@contextmanager
def room(size: int) -> Iterator[None]:
    """No file of this process can grow beyond that many bytes inside the block."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def source(installed: Installer) -> Installation:
    """An installation with enough that no compression makes it small."""
    made = installed("sqlite", migrated=True)
    noise = random.Random(1).randbytes(300_000)
    Rows(made.services, new_tenant(made.app).id).add_send(
        [{"email": "a@example.com", "attachments": [("a.bin", "application/octet-stream", noise)]}]
    )
    return made


@pytest.mark.parametrize("size", [100_000, 300_100], ids=["in a table", "near the end"])
def test_a_backup_that_finds_no_room_leaves_nothing(source: Installation, tmp_path: Path, size: int) -> None:
    """The service goes on as before."""
    with room(size):
        result = source.run("backup", str(tmp_path))
    *warned, error = result.stderr.splitlines()
    assert (result.exit_code, result.stdout) == (1, "")
    assert [line.partition(": ")[0] for line in warned] in ([], ["Warning"]), "the audit log has no room either"
    assert error.endswith(".zip cannot be written: File too large")
    assert list(tmp_path.iterdir()) == []
    Rows(source.services, 1).add_send(["b@example.com"])
    assert source.json("backup", str(tmp_path))["rows"] > 0


def test_a_backup_leaves_room_for_the_service_on_the_disk_that_they_share(
    source: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.backup.archive.FREE_BYTES", 1 << 62)
    target = source.settings.data_dir / "backups"
    target.mkdir()
    error = source.refused("backup", str(target), code=1)
    assert error.endswith(f"the disk, which also holds DATA_DIR, would have less than {(1 << 62) >> 20} MB free\n")
    assert list(target.iterdir()) == []


def test_a_file_system_without_hard_links_takes_backups(
    source: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup does not replace a file that is there."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr("os.link", refuse)
    path = tmp_path / "backup.zip"
    assert source.json("backup", str(path))["rows"] > 0
    with open_archive(path) as archive:
        archive.check(lambda _: None)
    assert [path.name for path in tmp_path.iterdir()] == ["backup.zip"]
    assert source.refused("backup", str(path)) == f"Error: {path} already exists\n"


def test_the_remains_of_a_killed_backup_give_way_to_the_next_one(source: Installation, tmp_path: Path) -> None:
    """The remains of a backup that is still being written stay."""
    killed, running = (tmp_path / f"tms-2026010{day}T000000Z.zip" for day in (1, 2))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for path in (killed, running)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "writing\n"
        processes[0].send_signal(signal.SIGKILL)
        processes[0].wait()
        unfinished = {path.name.split("Z")[0]: path for path in tmp_path.iterdir()}
        assert sorted(unfinished) == [".tms-20260101T000000", ".tms-20260102T000000"]
        written = Path(source.json("backup", str(tmp_path))["file"])
        assert set(tmp_path.iterdir()) == {written, unfinished[".tms-20260102T000000"]}
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_no_damage_is_taken_for_a_backup(source: Installation, file: str, tmp_path: Path) -> None:
    """A backup that is cut off or changed is refused, unless the damage is in bytes that mean nothing."""
    source.json("backup", file, "--without-secret-key")
    whole, damaged, chance = Path(file).read_bytes(), tmp_path / "damaged.zip", random.Random(2)
    intact = contents(Path(file))
    with zipfile.ZipFile(file) as archive:
        small = [member for member in archive.infolist() if member.file_size < 10_000]
        headers = [member.header_offset + chance.randrange(60) for member in small[:40]]
    places = [*headers, *(len(whole) - 1 - chance.randrange(8000) for _ in range(120))]
    for place in places:
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << chance.randrange(8))]) + whole[place + 1 :])
        assert contents(damaged) in (None, intact), place
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        damaged.write_bytes(whole[:length])
        assert contents(damaged) is None, length


def contents(path: Path) -> dict[str, bytes] | None:
    """The tables of the backup; None if it is refused."""
    try:
        with open_archive(path) as archive:
            archive.check(lambda _: None)
            return {name: archive.read(name) for name in sorted(archive.manifest.files)}
    except NotABackup:
        return None


def test_a_truncated_backup_is_refused_before_anything_is_written(
    source: Installation, installed: Installer, file: str
) -> None:
    source.json("backup", file)
    os.truncate(file, Path(file).stat().st_size * 2 // 3)
    target = installed("sqlite")
    assert (
        target.refused("restore", file)
        == f"Error: {file} cannot be restored: it is not an archive, or it is incomplete\n"
    )
    assert is_untouched(target)


@pytest.mark.parametrize("size", [40_000, 900_000], ids=["for its tables", "for its rows"])
def test_a_restore_that_finds_no_room_leaves_nothing_and_can_be_repeated(
    source: Installation, installed: Installer, file: str, size: int
) -> None:
    source.json("backup", file)
    target = installed("sqlite")
    key = target.settings.secret_key
    with room(size):
        result = target.run("restore", file)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert result.stderr.startswith("Error: nothing was restored: ")
    assert (target.settings.data_dir / "secret_key").read_text() == key
    assert is_untouched(target)
    assert target.json("restore", file)["held"]["messages"] == 1


def test_a_restore_that_loses_its_server_leaves_nothing(source: Installation, installed: Installer, file: str) -> None:
    source.json("backup", file)
    target = installed("postgresql", migrated=True)

    def begin(part: str, _size: int) -> Callable[[int], None]:
        if part == "restoring":
            others = "datname = current_database() AND pid <> pg_backend_pid()"
            with target.services.database.read() as session:
                session.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"))
        return lambda _: None

    with pytest.raises(CopyError):
        restore_backup(target.services, Path(file), any_secret_key=False, begin=begin)
    with target.services.database.read() as session:
        assert session.scalars(select(func.count()).select_from(Recipient)).one() == 0
    assert target.json("restore", file)["held"]["messages"] == 1
