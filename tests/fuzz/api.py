"""Fuzzes the API under gunicorn with schemathesis, from its OpenAPI description, with keys of all access levels.

Its phases: the examples of the description, every bound of every parameter, valid and invalid requests that are made
up, and sequences in which a request uses what the answer to another one contains.
"""

from __future__ import annotations

import contextlib
import logging
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from app.accounts.auth import SCOPES
from app.settings import Settings
from tests.api.test_openapi import Estate, new_estate
from tests.conftest import test_settings
from tests.support.apps import app_with
from tests.support.management import MANAGEMENT
from tests.support.prepared import migrated_file
from tests.support.servers import PATIENCE, migrated_database, postgres_server, redis_server, short_folder
from tests.support.web import Web, web_server

DATABASES = ("postgresql", "sqlite")
"""The short form runs on the first."""
SHORT_PATHS = {"standard": "^/", "manager": f"^{MANAGEMENT}/"}
"""Access levels of the short form -> the paths that are asked with it."""
EXAMPLES, SHORT_EXAMPLES = 100, 8
"""How many requests are made up for each operation on each database."""
PHASES, SHORT_PHASES = "examples,coverage,fuzzing,stateful", "examples,fuzzing,stateful"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
CASES = re.compile(r"(\d+) generated")


def fuzz(seed: int, *, examples: int | None, short: bool) -> bool:
    """Fuzzes it on both databases for each access level, in the short form on one database for two levels; whether no
    answer was wrong."""
    print("| database | access level | requests | seconds | fault |\n| --- | --- | --- | --- | --- |", flush=True)
    sound = True
    for database in DATABASES[:1] if short else DATABASES:
        with _served(database) as (web, estate, folder):
            for level, paths in (SHORT_PATHS if short else dict.fromkeys(SCOPES, "^/")).items():
                began = time.monotonic()
                count_of_each = examples or (SHORT_EXAMPLES if short else EXAMPLES)
                run = _run(
                    web, estate, folder, level=level, paths=paths, seed=seed, examples=count_of_each, short=short
                )
                count = CASES.search(run.stdout)
                requests = f"{int(count[1]):,}" if count else "0"
                figures = f"{database} | {level} | {requests} | {time.monotonic() - began:.0f}"
                print(f"| {figures} | {'an answer is wrong' if run.returncode else 'none'} |", flush=True)
                if run.returncode:
                    print(run.stdout, run.stderr, sep="\n", flush=True)
                    sound = False
    return sound


@contextlib.contextmanager
def _served(database: str) -> Iterator[tuple[Web, Estate, Path]]:
    """The API with an account that has one row of everything."""
    logging.disable()  # of the application here, which only makes the account
    with (
        short_folder() as folder,
        redis_server() as redis_url,
        _database(database, folder) as url,
    ):
        settings: Settings = test_settings(folder, DATABASE_URL=url, REDIS_URL=redis_url)
        with web_server(settings, folder) as web, app_with(settings) as app:
            yield web, new_estate(app), folder


@contextlib.contextmanager
def _database(name: str, folder: Path) -> Iterator[str]:
    if name == "sqlite":
        yield migrated_file(folder / "tms.sqlite3")
        return
    with postgres_server() as server_url, migrated_database(server_url) as url:
        yield url


def _run(
    web: Web, estate: Estate, folder: Path, *, level: str, paths: str, seed: int, examples: int, short: bool
) -> subprocess.CompletedProcess[str]:
    """Paths have ids that exist: hardly one that is made up would."""
    ids = folder / "schemathesis.toml"
    ids.write_text(
        "[parameters]\n" + "".join(f'"path.{name}" = {id_!r}\n' for name, id_ in estate.ids.items()), "utf-8"
    )
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--no-color", "--config-file", str(ids)),
        *("run", f"{web.base}/docs/openapi.json", "--header", f"Authorization: Bearer {estate.tenant.tokens[level]}"),
        *("--include-path-regex", paths, "--phases", SHORT_PHASES if short else PHASES),
        *("--checks", ",".join(CHECKS), "--warnings", "off"),
        *("--max-examples", str(examples), "--seed", str(seed), "--continue-on-failure"),
        *("--suppress-health-check", "all", "--request-timeout", f"{PATIENCE:g}"),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
