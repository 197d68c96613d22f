"""What cannot be backed up or restored is refused in one line, and changes nothing."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import func, select, text

from app.db.engine import without_credentials
from app.db.migrate import current, downgrade, newest
from app.db.models import Account
from app.db.phases import BASELINE
from app.infrastructure import liveness
from app.settings import Settings
from tests.restore.conftest import Installation, Installer, is_untouched, rewritten, running
from tests.support.databases import BACKENDS
from tests.support.next_release import CONTRACTED
from tests.support.tenants import new_tenant

MOMENT = "'2026-01-01 00:00:00.000000'"
SECRET = "another secret of the tests, long enough to sign"


@pytest.fixture
def source(installed: Installer) -> Installation:
    """An installation with an account."""
    made = installed("sqlite", migrated=True)
    new_tenant(made.app)
    return made


@pytest.fixture
def backup(source: Installation, file: str) -> str:
    """A backup of it."""
    source.json("backup", file)
    return file


def test_a_backup_is_for_its_owner_alone_and_replaces_nothing(source: Installation, tmp_path: Path) -> None:
    path = tmp_path / "backup.zip"
    source.json("backup", str(path))
    before = path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert source.refused("backup", str(path)) == f"Error: {path} already exists\n"
    assert path.read_bytes() == before
    missing = tmp_path / "missing" / "backup.zip"
    error = source.refused("backup", str(missing), code=1)
    assert error == f"Error: {missing} cannot be written: No such file or directory\n"
    assert [path.name for path in tmp_path.iterdir()] == ["backup.zip"]


def test_of_a_folder_the_latest_are_kept(source: Installation, tmp_path: Path) -> None:
    for name in ("tms-20260101T000000Z.zip", "tms-20260102T000000Z.zip", "mine.zip"):
        (tmp_path / name).touch()
    facts = source.json("backup", str(tmp_path), "--keep", "2")
    assert facts["deleted"] == [str(tmp_path / "tms-20260101T000000Z.zip")]
    written = f"tms-{facts['taken'].replace('-', '').replace(':', '')}.zip"
    assert Path(facts["file"]).name[:12] == written[:12]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["mine.zip", "tms-20260102T000000Z.zip", Path(facts["file"]).name]
    )
    assert "--keep needs a folder" in source.refused("backup", str(tmp_path / "mine.zip"), "--keep", "2")


def test_a_database_of_nobody_is_not_backed_up(installed: Installer, file: str) -> None:
    error = installed("sqlite").refused("backup", file).splitlines()[-1]
    assert error == "Error: the database was never migrated: there is nothing of this service in it"
    assert not Path(file).exists()


@pytest.mark.parametrize("name", ["tables/accounts", "secret_key", "manifest.json"])
def test_a_damaged_backup_is_refused_before_anything_is_written(backup: str, installed: Installer, name: str) -> None:
    content = bytearray(Path(backup).read_bytes())
    with zipfile.ZipFile(backup) as archive:
        described = archive.getinfo(name)
    content[described.header_offset + 30 + len(name) + described.compress_size // 2] ^= 0xFF
    Path(backup).write_bytes(content)
    target = installed("sqlite")
    assert target.refused("restore", backup).startswith(f"Error: {backup} cannot be restored: ")
    assert is_untouched(target)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda document: document.replace(b'"accounts"', b'"account"'), "damaged"),
        (lambda document: b"{", "its manifest.json cannot be read"),
        (lambda document: document.replace(b"transactional-messaging-service", b"other"), "of another service"),
        (lambda document: document.replace(b'"format": 1', b'"format": 2'), "has the format 2"),
        (lambda document: document.replace(b'"revision": "', b'"revision": "9'), "made by a newer version"),
    ],
    ids=["file", "manifest", "service", "format", "revision"],
)
def test_a_manifest_that_does_not_fit_is_refused(
    backup: str, installed: Installer, change: Callable[[bytes], bytes], said: str
) -> None:
    target = installed("sqlite")
    if said == "damaged":
        path = rewritten(backup)
        with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("tables/accounts", b"1\t2\n")
        said = "its file tables/accounts has changed: its checksum does not match"
    else:
        path = rewritten(backup, manifest=change)
    assert said in target.refused("restore", path)
    assert is_untouched(target)


def test_something_else_is_no_backup(source: Installation, installed: Installer, tmp_path: Path) -> None:
    target, other = installed("sqlite"), tmp_path / "other.zip"
    assert "No such file" in target.refused("restore", str(other))
    other.write_text("no archive")
    assert "it is not an archive" in target.refused("restore", str(other))
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("a", "b")
    assert "it has no file manifest.json" in target.refused("restore", str(other))
    assert is_untouched(target)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_row_that_does_not_fit_leaves_nothing_of_the_others(backup: str, installed: Installer, backend: str) -> None:
    """All tables are one transaction, and the secret key is put back."""
    target = installed(backend, migrated=True)
    key = (target.settings.data_dir / "secret_key").read_text()
    path = rewritten(backup, domains=lambda lines: lines + b"no\trow\n")
    error = target.refused("restore", path, code=1)
    assert error.startswith("Error: nothing was restored: the table domains cannot be written: ")
    with target.services.database.read() as session:
        assert session.scalars(select(func.count()).select_from(Account)).one() == 0
    assert (target.settings.data_dir / "secret_key").read_text() == key
    assert [path.name for path in target.settings.data_dir.glob("*secret_key*")] == ["secret_key"]


def test_only_an_empty_database_is_restored_into(source: Installation, backup: str, installed: Installer) -> None:
    before = source.rows()
    assert "is not empty: its table accounts has rows; restore into an empty one" in source.refused("restore", backup)
    assert source.rows() == before
    other = installed("sqlite")
    with other.services.database.write() as transaction:
        transaction.execute(text("CREATE TABLE mine (id INTEGER)"))
    assert "it has tables of another application, such as mine" in other.refused("restore", backup)


def test_running_processes_are_not_restored_under(backup: str, installed: Installer) -> None:
    target = installed("sqlite", migrated=True)
    liveness.register(target.settings.data_dir, without_credentials(target.settings.database_url))
    error = target.refused("restore", backup)
    assert error == "Error: processes of the service are running with this DATA_DIR: stop them first\n"


def test_another_secret_key_is_refused_unless_it_is_accepted(
    source: Installation, installed: Installer, new_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    without = str(tmp_path / "without.zip")
    assert source.json("backup", without, "--without-secret-key")["secret_key"] is False
    with_key = str(tmp_path / "with.zip")
    source.json("backup", with_key)
    assert "set SECRET_KEY to the old key of the installation" in installed("sqlite").refused("restore", without)
    other = installed("sqlite", SECRET_KEY=SECRET)
    assert "unset SECRET_KEY to use the key in the backup" in other.refused("restore", with_key)
    assert is_untouched(other)
    assert other.json("restore", with_key, "--other-secret-key")["secret_key"] is False
    settings = new_settings("sqlite")
    with running(settings) as target:
        assert target.json("restore", with_key)["secret_key"] is True
    kept = {path.read_text() for path in settings.data_dir.glob("secret_key*")}
    assert kept == {settings.secret_key, source.settings.secret_key}


def test_a_backup_of_an_older_version_is_migrated(
    installed: Installer, file: str, next_release: Callable[[], None]
) -> None:
    """The backup was made before the migration, by the older version or by this one."""
    source = installed("sqlite", migrated=True)
    add_account(source)
    before = source.json("backup", file)["revision"]
    next_release()
    target = installed("sqlite")
    assert target.json("restore", file)["revision"] == before
    assert current(target.settings.database_url) == newest() == CONTRACTED
    assert names_of_accounts(target) == ["old"]


def test_a_backup_of_the_last_step_before_the_baseline_is_restored(installed: Installer, file: str) -> None:
    source, target = installed("sqlite", migrated=True), installed("sqlite")
    downgrade(source.settings.database_url, BASELINE)
    add_account(source, "UPDATE alembic_version SET version_num = '0074'")
    assert source.json("backup", file)["revision"] == "0074"
    assert target.json("restore", file)["revision"] == "0074"
    assert current(target.settings.database_url) == newest()
    assert names_of_accounts(target) == ["old"]


def test_a_backup_of_an_earlier_step_is_refused(installed: Installer, file: str) -> None:
    source, target = installed("sqlite", migrated=True), installed("sqlite")
    add_account(source, "UPDATE alembic_version SET version_num = '0060'")
    source.json("backup", file)
    said = "does not restore the backup: revision 0060 is from before the first release: bring it to "
    assert said in target.refused("restore", file)
    assert is_untouched(target)


def add_account(source: Installation, *further: str) -> None:
    columns = "name, creation_time, last_modified_time, owner_confirmed, allowed_networks"
    added = f"INSERT INTO accounts ({columns}) VALUES ('old', {MOMENT}, {MOMENT}, 1, '[]')"
    with source.services.database.write() as transaction:
        for statement in (added, *further):
            transaction.execute(text(statement))


def names_of_accounts(target: Installation) -> list[str]:
    with target.services.database.read() as session:
        return list(session.scalars(select(Account.name)))
