"""Installations of their own: a backup has all that there is in a database."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from flask import Flask
from sqlalchemy import inspect, select

from app.db.models import Base
from app.http.context import EXTENSION
from app.sends.delivery.sender_worker import close_sender_worker
from app.services import Services
from app.settings import Settings
from tests.conftest import test_settings
from tests.support.apps import new_app
from tests.support.prepared import migrated_file
from tests.support.servers import emptied_database, scratch_database, short_folder
from tests.unit.transports.mailserver import MailServer

Installer = Callable[..., "Installation"]


@dataclass(frozen=True)
class Installation:
    """An application with a data folder and a database of its own, and its command line."""

    app: Flask

    @property
    def services(self) -> Services:
        """The parts of the application's process."""
        app_services: Services = self.app.extensions[EXTENSION]
        return app_services

    @property
    def settings(self) -> Settings:
        return self.services.settings

    def run(self, *arguments: str) -> Result:
        """Runs a command."""
        return self.app.test_cli_runner().invoke(args=list(arguments))

    def json(self, *arguments: str) -> Any:
        """What a command prints with `--json`; it must succeed."""
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def refused(self, *arguments: str, code: int = 2) -> str:
        """The error of a command that fails."""
        result = self.run(*arguments)
        assert (result.exit_code, result.stdout) == (code, ""), result.output
        return result.stderr

    def rows(self, *besides: str) -> dict[str, list[str]]:
        """All rows of all tables but some."""
        with self.services.database.read() as session:
            return {
                name: sorted(repr(tuple(row)) for row in session.execute(select(table)))
                for name, table in Base.metadata.tables.items()
                if name not in besides
            }


@contextmanager
def running(settings: Settings) -> Iterator[Installation]:
    """The application with these settings."""
    app = new_app(settings)
    services: Services = app.extensions[EXTENSION]
    try:
        yield Installation(app)
    finally:
        close_sender_worker(services)
        services.database.close()
        services.redis.close()


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    """A mail server that stores the mail it receives."""
    with MailServer() as server:
        yield server


@pytest.fixture
def new_settings(
    request: pytest.FixtureRequest, redis_url: str, mail_server: MailServer
) -> Iterator[Callable[..., Settings]]:
    """`new_settings(backend)`: those of a new folder and a database without rows, `migrated` or not, with a generated
    SECRET_KEY."""
    with ExitStack() as stack:

        def make(backend: str, *, migrated: bool = False, **environ: str) -> Settings:
            folder = stack.enter_context(short_folder())
            if backend == "postgresql":
                made = emptied_database if migrated else scratch_database
                database = stack.enter_context(made(request.getfixturevalue("postgres")))
            elif migrated:
                database = migrated_file(folder / "tms.sqlite3")
            else:
                database = f"sqlite:///{folder}/tms.sqlite3"
            urls = {"DATABASE_URL": database, "REDIS_URL": redis_url, "EMAIL_TRANSPORT_URL": mail_server.url()}
            return test_settings(folder, **{**urls, "SECRET_KEY": "", **environ})

        yield make


@pytest.fixture
def installed(new_settings: Callable[..., Settings]) -> Iterator[Installer]:
    """`installed(backend)`: an installation with these settings."""
    with ExitStack() as stack:

        def make(backend: str, *, migrated: bool = False, **environ: str) -> Installation:
            return stack.enter_context(running(new_settings(backend, migrated=migrated, **environ)))

        yield make


@pytest.fixture
def file(tmp_path: Path) -> str:
    """The path to which a backup is written."""
    return str(tmp_path / "backup.zip")


def rewritten(backup: str, **files: Callable[[bytes], bytes]) -> str:
    """A copy of the backup with other files in it; the manifest has their checksums."""
    path = f"{backup}.rewritten"
    with zipfile.ZipFile(backup) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    manifest: dict[str, Any] = json.loads(contents.pop("manifest.json"))
    for name, change in files.items():
        if name == "manifest":
            continue
        place = f"tables/{name}"
        contents[place] = change(contents[place])
        checksum = hashlib.sha256(contents[place]).hexdigest()
        rows = contents[place].count(b"\n")
        manifest["files"][place] = {"bytes": len(contents[place]), "sha256": checksum, "rows": rows}
    document = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
        archive.writestr("manifest.json", files.get("manifest", bytes)(document))
    return path


def is_untouched(target: Installation) -> bool:
    """Whether the database has no table."""
    return inspect(target.services.database.engine).get_table_names() == []
