"""The report of a process at its start, without secrets."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from app.db.engine import without_credentials
from app.infrastructure import liveness
from app.infrastructure.startup_report import log_startup
from app.settings import from_environment
from app.transports.urls import display_url


def test_a_process_reports_its_database_its_transports_and_unknown_variables(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMAIL_TRANSPORT", "smtp://user:hunter2@relay")
    environment = {
        "DATABASE_URL": "postgresql://user:hunter2@db.example:5433/tms?sslmode=require",
        "EMAIL_TRANSPORT_URL": "smtp://user:hunter2@one.example:587?tls=require,smtps://user:hunter2@two.example",
        "SMS_TRANSPORT_URL": "smpp://user:hunter2@gateway.example:2775",
    }
    with caplog.at_level(logging.INFO, logger="app.infrastructure.startup_report"):
        log_startup(from_environment({"DATA_DIR": str(tmp_path), **environment}))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "INFO",
            "using the database postgresql://db.example:5433/tms, sending mail to smtp://one.example:587, else to "
            "smtps://two.example and texts to smpp://gateway.example:2775",
        ),
        (
            "WARNING",
            "EMAIL_TRANSPORT is not a setting of this service and is ignored; did you mean EMAIL_TRANSPORT_URL?",
        ),
    ]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql+psycopg://user:hunter2@host/name", "postgresql://host/name"),
        ("postgresql+psycopg:///name?host=/run/postgresql&password=hunter2", "postgresql:///run/postgresql/name"),
        ("postgresql+psycopg://user:hunter2@/name?host=a&host=b", "postgresql://a,b/name"),
        ("sqlite:////var/lib/tms.sqlite3", "sqlite:////var/lib/tms.sqlite3"),
    ],
)
def test_a_database_is_shown_without_user_password_and_options(url: str, expected: str) -> None:
    assert without_credentials(url) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("file:///var/out%20box", "/var/out box"),
        ("kannel+http://user:hunter2@host:13013/cgi-bin/sendsms?smsc=hunter2", "kannel+http://host:13013"),
        ("carrierpigeon://hunter2/loft", "carrierpigeon://"),
    ],
)
def test_a_transport_is_shown_without_its_secrets(url: str, expected: str) -> None:
    assert display_url(url) == expected


def test_a_folder_that_cannot_be_written_does_not_prevent_a_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = from_environment({"DATA_DIR": str(tmp_path)})
    (tmp_path / "processes").write_text("not a folder")
    liveness.register(settings.data_dir, "sqlite:///tms.sqlite3")
    assert "this process cannot be registered in the data folder" in caplog.text
    assert liveness.databases(settings.data_dir) == set()
