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


PROVIDER = {"OIDC_ISSUER": "https://id.example", "OIDC_CLIENT_ID": "tms", "OIDC_ROLES": "admins=operator"}
A_URL = (
    "must be the https URL of a provider such as https://id.example.com/realms/staff, without user and query; "
    "http only on a loopback host"
)


@pytest.mark.parametrize(
    "value",
    [
        *("id.example.com", "http://id.example.com", "ftp://id.example.com", "https://", "https://u:p@id.example"),
        *("https://id.example?x=1", "https://id.example#x", "http://127.0.0.1.example"),
    ],
)
def test_an_issuer_that_is_no_url_of_a_provider_is_refused(tmp_path: Path, value: str) -> None:
    assert refused(tmp_path, "OIDC_ISSUER", value) == f"OIDC_ISSUER={value}: {A_URL}"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("admins", "'admins' must be VALUE=ROLE or VALUE=ROLE:ACCOUNT with one of the roles operator, manager, reader"),
        ("=operator", "'=operator' must be VALUE=ROLE or VALUE=ROLE:ACCOUNT with one of the roles operator, manager, "),
        ("a=root", "'a=root' must be VALUE=ROLE or VALUE=ROLE:ACCOUNT with one of the roles operator, manager, reader"),
        ("a=operator,", "'' must be VALUE=ROLE or VALUE=ROLE:ACCOUNT with one of the roles operator, manager, reader"),
        ("a=operator:Shop", "'a=operator:Shop' names an account, but an operator has all of them"),
        ("a=manager", "'a=manager' must name the account that is managed, as in VALUE=manager:ACCOUNT"),
        ("a=manager:", "'a=manager:' names no account after the colon"),
        ("a=reader: ", "'a=reader:' names no account after the colon"),
        ("a-*=manager:Shop", "'a-*=manager:Shop' must have one * in its value and * as its account, or none at all"),
        ("a=manager:*", "'a=manager:*' must have one * in its value and * as its account, or none at all"),
        ("a-*-*=reader:*", "'a-*-*=reader:*' must have one * in its value and * as its account, or none at all"),
        ("*=operator", "'*=operator' must have one * in its value and * as its account, or none at all"),
    ],
)
def test_a_rule_of_roles_that_means_nothing_is_refused(tmp_path: Path, value: str, problem: str) -> None:
    assert refused(tmp_path, "OIDC_ROLES", value).startswith(f"OIDC_ROLES={value.strip()}: {problem}")


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("OIDC_SCOPES", "profile email", "must be scopes separated by spaces, openid among them"),
        ("OIDC_SCOPES", 'openid "x"', "must be scopes separated by spaces, openid among them"),
        ("OIDC_CLIENT_ID", "my id", "must have 1 to 500 visible ASCII characters, without spaces"),
        ("OIDC_ROLE_CLAIM", "a b", "must have 1 to 500 visible ASCII characters, without spaces"),
        ("OIDC_NAME", "x" * 61, "must be a text of at most 60 characters on one line"),
        ("OIDC_SESSION", "off", "must be a number of hours, days or weeks such as 12h, 7d or 4w"),
        ("OIDC_ONLY", "maybe", "must be one of 1, 0, on, off, true, false, yes, no"),
    ],
)
def test_an_invalid_value_about_the_provider_is_refused(
    tmp_path: Path, variable: str, value: str, problem: str
) -> None:
    assert refused(tmp_path, variable, value) == f"{variable}={value}: {problem}"


def test_an_invalid_secret_of_the_client_is_not_quoted(tmp_path: Path) -> None:
    problem = "must have 1 to 500 visible ASCII characters, without spaces"
    assert refused(tmp_path, "OIDC_CLIENT_SECRET", "hush hush") == f"OIDC_CLIENT_SECRET: {problem}"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"OIDC_CLIENT_ID": ""}, "OIDC_ISSUER=https://id.example: needs OIDC_CLIENT_ID"),
        ({"OIDC_ROLES": ""}, "OIDC_ISSUER=https://id.example: needs OIDC_ROLES"),
        ({"PUBLIC_URL": "http://tms.example"}, "OIDC_ISSUER=https://id.example: needs a PUBLIC_URL with https"),
        ({"OIDC_ISSUER": "", "OIDC_ONLY": "on"}, "OIDC_ONLY=on: needs OIDC_ISSUER; nobody could sign in"),
    ],
)
def test_settings_of_the_provider_that_do_not_fit_are_refused(
    tmp_path: Path, changes: dict[str, str], problem: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        from_environment({"DATA_DIR": str(tmp_path), **PROVIDER, **changes})
    assert str(caught.value) == problem


def test_the_provider_is_called_by_its_host_unless_it_has_a_name(tmp_path: Path) -> None:
    read = from_environment({"DATA_DIR": str(tmp_path), **PROVIDER})
    assert (read.provider_name, read.oidc_scopes) == ("id.example", "openid profile email")
    named = from_environment({"DATA_DIR": str(tmp_path), **PROVIDER, "OIDC_NAME": "Staff"})
    assert named.provider_name == "Staff"
