"""Settings: an invalid value is reported in one line that names the variable, without secrets (docs/settings.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.launcher import demo
from app.settings import Settings, SettingsError, from_environment

HOST_AND_PORT = "has no valid host and port (special characters of user and password are written as %xx)"


def refused(folder: Path, variable: str, value: str) -> str:
    with pytest.raises(SettingsError) as caught:
        from_environment({"DATA_DIR": str(folder), variable: value})
    return str(caught.value)


@pytest.mark.parametrize("value", ["0", "65536", "99999", "80x", "-1"])
def test_an_invalid_port_is_refused(tmp_path: Path, value: str) -> None:
    assert refused(tmp_path, "PORT", value) == f"PORT={value}: must be a whole number from 1 to 65535"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DATABASE_URL", "postgresql://user:pa/ss@word@host:port/name"),
        ("DATABASE_URL", "postgresql://[host/name"),
        ("REDIS_URL", "redis://user:password@host:port/0"),
        ("REDIS_URL", "redis://host:99999/0"),
        ("PUBLIC_URL", "http://host:99999"),
        ("PUBLIC_URL", "http://[host"),
    ],
)
def test_a_url_without_a_valid_host_or_port_is_refused(tmp_path: Path, variable: str, value: str) -> None:
    assert refused(tmp_path, variable, value) == f"{variable}: {HOST_AND_PORT}"


@pytest.mark.parametrize("value", ["sqlite:///", "sqlite:///:memory:"])
def test_a_database_that_processes_cannot_share_is_refused(tmp_path: Path, value: str) -> None:
    assert refused(tmp_path, "DATABASE_URL", value).startswith("DATABASE_URL: must name a file")


@pytest.mark.parametrize("value", ["abc", "0", "70000"])
def test_an_invalid_port_of_the_receiver_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    settings: Settings = from_environment({"DATA_DIR": str(tmp_path)})
    monkeypatch.setenv("RECEIVER_PORT", value)
    with pytest.raises(SettingsError, match=f"^RECEIVER_PORT={value}: must be a whole number from 1 to 65535$"):
        demo.read(settings)
