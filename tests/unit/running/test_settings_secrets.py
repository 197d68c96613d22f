"""Secrets of the settings never occur in an error text, in a log or in a `repr`."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.launcher import service
from app.launcher.service import StartError
from app.services import make_services
from app.settings import SettingsError, from_environment

PIECES = ("hunter", "cr3t")
SECRETS = (
    "hunter2cr3t",
    "12/hunter2?cr3t",
    "12?hunter2#cr3t",
    "12#hunter2/cr3t",
    "hunter2@cr3t",
    "hunter2:cr3t",
    "[hunter2cr3t",
)
SHAPES = (
    "{0}",
    "{1}://user:{0}@host:1",
    "{1}://user:{0}@host:port",
    "{1}://user:{0}@host/path?nonsense=1",
    "{1}://:{0}@host",
    "{1}://{0}@host",
    "{1}://user:{0}@",
    "{1}://host/0?password={0}",
    "{1}://host/0?{0}=1",
    "{1}:user:{0}@host",
    "{1}:/user:{0}@host",
    "{1}//user:{0}@host",
    "user:{0}@host:25",
)
SCHEMES = {
    "DATABASE_URL": ("postgresql", "postgresql+psycopg", "sqlite", "mysql"),
    "REDIS_URL": ("redis", "rediss", "unix", "reddis"),
    "EMAIL_TRANSPORT_URL": ("smtp", "smtps", "smpt"),
    "SMS_TRANSPORT_URL": ("smpp", "smpps", "kannel+http", "kannel+https", "kanel"),
    "PUBLIC_URL": ("http", "https", "htp"),
}


def startup_error(folder: Path, environ: dict[str, str]) -> str:
    """The error about the settings at a start; empty when they are valid."""
    try:
        service.check_settings(from_environment({"DATA_DIR": str(folder), **environ}))
    except (SettingsError, StartError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("variable", SCHEMES)
def test_no_part_of_a_password_is_repeated(tmp_path: Path, variable: str) -> None:
    """A typing error may put the password anywhere."""
    values = [shape.format(secret, scheme) for scheme in SCHEMES[variable] for shape in SHAPES for secret in SECRETS]
    message = {value: startup_error(tmp_path, {variable: value}) for value in values}
    assert sum(map(bool, message.values())) > len(values) / 4
    assert {value: text for value, text in message.items() if any(piece in text for piece in PIECES)} == {}


@pytest.mark.parametrize("variable", ["SENDGRID_WEBHOOK_SECRET", "SECRET_KEY"])
@pytest.mark.parametrize("value", ["hunter2", "hunter2 cr3t", "hunter2/cr3t"])
def test_an_unusable_secret_is_named_and_not_repeated(tmp_path: Path, variable: str, value: str) -> None:
    message = startup_error(tmp_path, {variable: value})
    assert message.startswith(f"{variable}: must have ")
    assert not any(piece in message for piece in PIECES)


def test_the_texts_of_settings_and_services_contain_no_secret(tmp_path: Path) -> None:
    settings = from_environment(
        {
            "DATA_DIR": str(tmp_path),
            "DATABASE_URL": "postgresql://user:hunter2@host/name",
            "REDIS_URL": "redis://user:hunter2@host",
            "EMAIL_TRANSPORT_URL": "smtp://user:hunter2@host",
            "SMS_TRANSPORT_URL": "smpp://user:hunter2@host",
            "PUBLIC_URL": "https://user:hunter2@host",
            "SENDGRID_WEBHOOK_SECRET": "hunter2-and-some-more",
            "SECRET_KEY": "hunter2-and-so-much-more-that-it-is-long-enough",
        }
    )
    services = make_services(settings)
    for text in (repr(settings), str(settings), repr(services), repr(services.database.engine)):
        assert "hunter" not in text
    assert f"port={settings.port}" in repr(settings)


def test_a_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    """Containers and systemd hand secrets over in files."""
    file = tmp_path / "secret"
    file.write_text("a secret key of a file, long enough\n")
    settings = from_environment({"DATA_DIR": str(tmp_path), "SECRET_KEY_FILE": str(file), "PORT_FILE": "ignored"})
    assert settings.secret_key == "a secret key of a file, long enough"


def test_a_file_that_gives_no_secret_is_refused_and_its_content_is_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(" \n")
    assert startup_error(tmp_path, {"SECRET_KEY_FILE": str(file)}) == f"SECRET_KEY_FILE={file}: is empty"
    file.write_bytes(b"hunter2\xff")
    assert (
        startup_error(tmp_path, {"SECRET_KEY_FILE": str(file)})
        == f"SECRET_KEY_FILE={file}: cannot be read: it is no text"
    )
    file.write_text("redis://user:hunter2@host:port")
    assert startup_error(tmp_path, {"REDIS_URL_FILE": str(file)}).startswith("REDIS_URL: has no valid host and port")
    file.unlink()
    assert (
        startup_error(tmp_path, {"SECRET_KEY_FILE": str(file)})
        == f"SECRET_KEY_FILE={file}: cannot be read: No such file or directory"
    )


def test_a_secret_has_one_place(tmp_path: Path) -> None:
    both = {"SECRET_KEY": "hunter2", "SECRET_KEY_FILE": str(tmp_path / "secret")}
    assert startup_error(tmp_path, both) == "SECRET_KEY_FILE: SECRET_KEY is set as well; set one of the two"
