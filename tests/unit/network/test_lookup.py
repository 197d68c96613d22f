"""Name lookups end at their deadline, whatever the name server does (docs/databases.md#name-servers)."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from app.db.bounded_connection import with_addresses
from app.network import lookup
from app.network.connections import connect
from app.network.lookup import look_up, own_name
from tests.support.servers import PATIENCE
from tests.unit.network import lookups
from tests.unit.network.lookups import ERRORS, LOOKUPS

RESOLVER = "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n"
"""The longest that the system's resolver can be told to wait: 150 seconds for each lookup."""
SWITCH = "hosts: files dns\n"
NAMESPACES = ("unshare", "--user", "--map-root-user", "--mount", "--net")
"""A program with a network and mounts of its own, as an ordinary user."""
MOUNT = 'mount --bind "$1" /etc/resolv.conf && mount --bind "$2" /etc/nsswitch.conf && shift 2 && exec "$@"'


@pytest.fixture
def hanging_resolver(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The system's resolver does not return until the test has ended."""
    ended = threading.Event()

    def hang(*_arguments: object, **_options: object) -> list[object]:
        ended.wait(PATIENCE)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    yield
    ended.set()


@pytest.mark.usefixtures("hanging_resolver")
@pytest.mark.parametrize("name", LOOKUPS)
def test_a_lookup_ends_at_its_deadline(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.db.bounded_connection.CONNECT_SECONDS", 1)
    assert ERRORS[name] in LOOKUPS[name]()


def test_each_lookup_ends_with_a_name_server_that_never_answers(tmp_path: Path) -> None:
    """The real resolver, asking a UDP socket that receives the queries and never answers."""
    if not _may_use_namespaces():
        pytest.skip("this machine allows no user namespaces, in which alone a test may set the name server")
    (tmp_path / "resolv.conf").write_text(RESOLVER)
    (tmp_path / "nsswitch.conf").write_text(SWITCH)
    files = [str(tmp_path / "resolv.conf"), str(tmp_path / "nsswitch.conf")]
    run = subprocess.run(
        [*NAMESPACES, "sh", "-c", MOUNT, "sh", *files, sys.executable, "-m", lookups.__name__],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert [name for name, error in report["errors"].items() if ERRORS[name] not in error] == []
    assert report["queries"] >= len(LOOKUPS)


def _may_use_namespaces() -> bool:
    if sys.platform != "linux" or not shutil.which("unshare"):
        return False
    mount = [*NAMESPACES, "mount", "--bind", "/etc/nsswitch.conf", "/etc/nsswitch.conf"]
    return subprocess.run(mount, capture_output=True, check=False).returncode == 0


def test_an_address_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_in_thread", pytest.fail)
    assert [look_up(address, 1) for address in ("192.0.2.1", "2001:db8::1", "fe80::1%1")] == [
        ["192.0.2.1"],
        ["2001:db8::1"],
        ["fe80::1%1"],
    ]


def test_a_name_without_an_address_is_an_error() -> None:
    with pytest.raises(OSError, match="label"):
        look_up("a" * 64 + ".example", PATIENCE)


def test_a_connection_goes_to_the_first_address_that_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr(lookup, "_addresses", lambda _host: ["127.0.0.2", "127.0.0.1"])
        with connect("both.example", port, PATIENCE) as connected:
            assert connected.getpeername() == ("127.0.0.1", port)
            assert connected.gettimeout() == PATIENCE


def test_the_own_name_is_the_short_one_while_the_name_server_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    lookup._own_name.cache_clear()
    monkeypatch.setattr(socket, "getfqdn", lambda: answered.wait(PATIENCE) and "mail.service.example")
    try:
        assert own_name(0.01) == socket.gethostname()
        answered.set()
        assert own_name(PATIENCE) == "mail.service.example"
    finally:
        lookup._own_name.cache_clear()


def test_the_driver_gets_an_entry_per_address_of_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = {"one": ["192.0.2.1", "2001:db8::1"], "two": ["192.0.2.2"]}
    monkeypatch.setattr(lookup, "_addresses", addresses.__getitem__)
    assert with_addresses({"host": "one,two", "port": "5433", "dbname": "x"}, PATIENCE) == {
        "host": "one,one,two",
        "port": "5433,5433,5433",
        "hostaddr": "192.0.2.1,2001:db8::1,192.0.2.2",
        "dbname": "x",
    }
    assert with_addresses({"host": "one,two", "port": "1,"}, PATIENCE)["port"] == "1,1,5432"


@pytest.mark.parametrize(
    "options", [{}, {"host": "/run/postgresql"}, {"host": "one", "hostaddr": "192.0.2.1"}, {"host": "@abstract"}]
)
def test_a_database_without_a_name_is_not_looked_up(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_in_thread", pytest.fail)
    assert with_addresses(options, PATIENCE) == options
