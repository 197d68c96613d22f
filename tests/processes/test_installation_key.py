"""Processes with another SECRET_KEY than that of the installation (docs/secrets.md#one-key-for-all-hosts)."""

from __future__ import annotations

import os
import subprocess
import sys

from app.infrastructure.installation_key import check_secret_key
from app.secret_keys import short_fingerprint
from app.services import make_services
from tests.conftest import test_settings
from tests.processes.test_clocks import COMMANDS
from tests.support.launched import PATIENT, ROOT
from tests.support.own_postgres import own_postgres
from tests.support.prepared import migrated_file
from tests.support.servers import PATIENCE, free_port, short_folder, wait_until
from tests.support.web import GUNICORN

KEY, OTHER = "the key of the installation, of 32 characters", "a key of another host, of 32 characters or so"
REFUSAL = (
    f"SECRET_KEY ({short_fingerprint(OTHER)}) is not the installation's key ({short_fingerprint(KEY)}): set it to "
    "that key or add that to SECRET_KEY_FALLBACKS; if it is lost, run `flask --app wsgi secrets adopt`"
)


def started(command: tuple[str, ...], **environ: str) -> tuple[int, list[str]]:
    """Exit status of a process that was to start, and the lines that are no log. One that can start ends after it has
    checked that."""
    ended = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**os.environ, **PATIENT, "PORT": str(free_port()), "TMS_CHECK_START": "1", **environ},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return ended.returncode, [line for line in ended.stderr.splitlines() if not line.startswith("{")]


def test_no_process_starts_with_another_key() -> None:
    with short_folder() as folder:
        environ = {"DATA_DIR": str(folder), "DATABASE_URL": migrated_file(folder / "tms.sqlite3")}
        assert started(COMMANDS["a worker"], **environ, SECRET_KEY=KEY) == (0, [])
        for name, command in COMMANDS.items():
            assert started(command, **environ, SECRET_KEY=OTHER) == (1, [f"cannot start: {REFUSAL}"]), name
        assert started(COMMANDS["a worker"], **environ, SECRET_KEY=KEY) == (0, [])


def test_an_api_that_started_without_the_database_ends_when_it_sees_another_key() -> None:
    with short_folder() as folder, own_postgres(migrated=True) as postgres:
        settings = test_settings(folder, DATABASE_URL=postgres.url, SECRET_KEY=KEY)
        services = make_services(settings)
        check_secret_key(services.database, settings.secret_keys)
        services.database.close()
        environ = {"DATA_DIR": str(folder), "DATABASE_URL": postgres.url, "PORT": str(free_port()), "SECRET_KEY": OTHER}
        log = folder / "log"
        with postgres.away(), log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *GUNICORN], cwd=ROOT, env={**os.environ, **environ}, stdout=output, stderr=output
            )
            wait_until(lambda: "app.http.server" in log.read_text(), "it has started")
        assert process.wait(PATIENCE) == 0
        assert f"the API stops: {REFUSAL}" in log.read_text()
