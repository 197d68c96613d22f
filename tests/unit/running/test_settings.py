"""Settings: an invalid value is reported in one line that names the variable, without secrets (docs/settings.md)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from app.launcher import screen
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
        screen.read(settings)


@pytest.mark.parametrize("value", ["7", "0d", "7 days", "-1d", "1y", "12345d", "1.5d"])
def test_an_invalid_retention_is_refused(tmp_path: Path, value: str) -> None:
    expected = f"RETAIN_CONTENT={value}: must be a number of hours, days or weeks such as 12h, 7d or 4w, or off"
    assert refused(tmp_path, "RETAIN_CONTENT", value) == expected


def test_a_retention_is_a_number_of_hours_days_or_weeks_or_off(tmp_path: Path) -> None:
    given = {"RETAIN_CONTENT": "12h", "RETAIN_RECIPIENTS": "OFF", "RETAIN_EVENTS": "2w", "RETAIN_CAPTURED": "1d"}
    read = from_environment({"DATA_DIR": str(tmp_path), **given})
    assert (read.retain_content, read.retain_recipients) == (timedelta(hours=12), None)
    assert (read.retain_events, read.retain_captured) == (timedelta(days=14), timedelta(days=1))


def test_retentions_under_their_former_names_are_read_unless_the_new_ones_are_set(tmp_path: Path) -> None:
    former = {"DATA_DIR": str(tmp_path), "RETENTION_DAYS": "90", "IDEMPOTENCY_HOURS": "48"}
    read = from_environment(former)
    assert (read.retain_logs, read.retain_captured) == (timedelta(days=90), timedelta(days=90))
    assert read.retain_idempotency == timedelta(hours=48)
    assert from_environment({**former, "RETAIN_LOGS": "2w"}).retain_logs == timedelta(days=14)
    expected = "RETENTION_DAYS=9d: must be a whole number; RETAIN_CAPTURED replaces this setting"
    assert refused(tmp_path, "RETENTION_DAYS", "9d") == expected
