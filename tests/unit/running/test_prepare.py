"""Checks before a start: every problem is reported in one line that names it."""

from __future__ import annotations

import os
import socket
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from app.clock import this_second
from app.infrastructure.running_service import running_url
from app.infrastructure.start_signal import StartSignal
from app.launcher import service
from app.launcher.service import Start, StartError
from app.launcher.supervisor import Child, Supervisor
from app.settings import Settings, SettingsError, from_environment

URL = "http://127.0.0.1:8123"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return from_environment({"DATA_DIR": str(tmp_path)})


def refused(action: object, *arguments: object) -> StartError:
    assert callable(action)
    with pytest.raises(StartError) as caught:
        action(*arguments)
    assert "\n" not in str(caught.value)
    return caught.value


def test_an_unknown_transport_is_refused(settings: Settings) -> None:
    error = refused(service.check_settings, replace(settings, sms_transport_url="pigeon://loft"))
    assert "pigeon" in str(error)
    assert error.status == 2


def test_a_missing_seed_file_is_refused(settings: Settings) -> None:
    error = refused(service.check_settings, replace(settings, seed="no/such.yaml"))
    assert (str(error), error.status) == ("SEED=no/such.yaml: no such file", 2)


def test_valid_settings_pass(settings: Settings) -> None:
    service.check_settings(settings)


def test_a_data_folder_has_one_launcher(tmp_path: Path) -> None:
    first = service.lock_data_dir(tmp_path, URL)
    error = refused(service.lock_data_dir, tmp_path, URL)
    assert str(error) == f"the service already runs in DATA_DIR={tmp_path} (process {os.getpid()})"
    first.close()
    service.lock_data_dir(tmp_path, URL).close()


def test_the_lock_says_at_which_address_the_service_runs_while_it_does(tmp_path: Path) -> None:
    assert running_url(tmp_path) is None
    lock = service.lock_data_dir(tmp_path, URL)
    assert running_url(tmp_path) == URL
    lock.close()
    assert running_url(tmp_path) is None
    os.close(service.lock_data_dir(tmp_path, URL).file)  # as the system does for a killed process
    assert running_url(tmp_path) is None


def test_a_relay_is_asked_whether_it_accepts_a_connection(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert service.unreachable_relays(f"smtp://127.0.0.1:{port}") == []
        assert service.unreachable_relays(f"smtp://127.0.0.1:1,smtp://user:secret@127.0.0.1:{port}") == []
    (refusal,) = service.unreachable_relays(f"smtp://user:secret@127.0.0.1:{port}")
    assert refusal == f"the relay 127.0.0.1 port {port} cannot be reached (Connection refused)"
    assert service.unreachable_relays(tmp_path.as_uri()) == []


def test_the_lock_shows_whether_the_last_launcher_ended_in_order(tmp_path: Path) -> None:
    first = service.lock_data_dir(tmp_path, URL)
    os.close(first.file)  # as the system does for a killed process
    second = service.lock_data_dir(tmp_path, URL)
    second.close()
    third = service.lock_data_dir(tmp_path, URL)
    third.close()
    assert [lock.predecessor_died for lock in (first, second, third)] == [False, True, False]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_a_port_in_use_is_refused(host: str) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        error = refused(service.check_port, host, port)
    assert str(error) == f"port {port} on {host} is taken: stop what listens there, or set PORT"
    service.check_port(host, port)


def test_a_port_that_becomes_free_is_waited_for() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        threading.Timer(0.3, listener.close).start()
        assert "is taken" in str(refused(service.await_port, "127.0.0.1", port, 0.0))
        service.await_port("127.0.0.1", port, 30.0)


def test_a_host_that_is_not_this_machine_is_refused() -> None:
    assert str(refused(service.check_port, "192.0.2.1", 8000)).startswith("cannot listen on 192.0.2.1 port 8000: ")


def test_a_database_that_does_not_answer_is_refused(settings: Settings) -> None:
    nobody = replace(settings, database_url="postgresql+psycopg://127.0.0.1:1/none")
    assert str(refused(service.migrate_database, nobody)).startswith("the database cannot be used: ")


def test_a_database_that_cannot_be_opened_is_refused(settings: Settings) -> None:
    nowhere = replace(settings, database_url=f"sqlite:///{settings.data_dir}/no/such/folder.sqlite3")
    assert "unable to open database file" in str(refused(service.migrate_database, nowhere))


def test_migrating_creates_the_database(settings: Settings) -> None:
    service.migrate_database(settings)
    service.migrate_database(settings)
    assert (settings.data_dir / "tms.sqlite3").exists()


def test_a_database_from_before_the_first_release_is_refused_with_the_way_to_get_there(settings: Settings) -> None:
    service.migrate_database(settings)
    with closing(sqlite3.connect(settings.data_dir / "tms.sqlite3")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0060'")
    error = refused(service.migrate_database, settings)
    assert str(error).startswith("revision 0060 is from before the first release: bring it to revision 0074 by commit ")


def test_a_data_folder_with_a_path_too_long_for_sqlite_is_refused(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["x" * 100] * 5)
    with pytest.raises(SettingsError, match="the path is too long for a file of SQLite; set DATA_DIR or DATABASE_URL"):
        from_environment({"DATA_DIR": str(deep)})
    assert from_environment({"DATA_DIR": str(deep), "DATABASE_URL": "postgresql://host/name"}).data_dir == deep


def test_a_start_does_not_wait_for_senders_that_have_ended(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the other processes start at once, and all are supervised."""
    monkeypatch.setattr(service, "READY_SECONDS", float("inf"))
    service.migrate_database(settings)
    sender = Child("sends-1", ["false"], os.environ)
    sender.start()
    start = Start(settings, Supervisor(), {}, sender, StartSignal())
    assert service._await_sender(start, [sender], this_second()) is False
