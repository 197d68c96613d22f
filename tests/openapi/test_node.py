"""Linters of the description, and a TypeScript client of it; they need Node (docs/openapi.md#checks)."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from flask import Flask
from werkzeug.serving import make_server

from tests.support.captured import capture
from tests.support.definitions import STANDARD, create
from tests.support.description import describe
from tests.support.tenants import PLAIN_FIELDS, Tenant

HERE = Path(__file__).parent
TOOLS = os.environ.get("NODE_TOOLS")
"""The folder with the `node_modules` of tests/openapi/package.json; `make openapi` sets it where npm is available."""

pytestmark = pytest.mark.skipif(TOOLS is None, reason="there is no npm")


def run(*command: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs one of the tools."""
    tool, *options = command
    environ = {**os.environ, "REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "NO_COLOR": "1"}
    path = Path(TOOLS or "").resolve() / "node_modules" / ".bin" / tool
    return subprocess.run(
        [path, *options], cwd=folder, env=environ, check=False, capture_output=True, text=True, timeout=300
    )


def test_redocly_has_no_warning(description_file: Path) -> None:
    done = run("redocly", "lint", "--extends=recommended-strict", "--format=json", description_file)
    assert done.returncode == 0, done.stdout
    totals = orjson.loads(done.stdout[done.stdout.index("{") :])["totals"]
    assert totals == {"errors": 0, "warnings": 0, "ignored": 0}, done.stdout


def test_spectral_has_no_warning(description_file: Path) -> None:
    done = run("spectral", "lint", "--fail-severity=hint", "--ruleset", HERE / "spectral.yaml", description_file)
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def typescript(description_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the generated types and what uses them, compiled with the strictest settings."""
    folder: Path = tmp_path_factory.mktemp("typescript")
    (folder / "node_modules").symlink_to(Path(TOOLS or "").resolve() / "node_modules")
    (folder / "package.json").write_text('{"type": "module"}')
    for name in ("smoke.ts", "tsconfig.json"):
        shutil.copy(HERE / name, folder)
    done = run("openapi-typescript", description_file, "--output", folder / "api.d.ts")
    assert done.returncode == 0, done.stderr
    compiled = run("tsc", "--project", folder, folder=folder)
    assert compiled.returncode == 0, compiled.stdout
    return folder


@contextmanager
def serving(app: Flask) -> Iterator[str]:
    """Serves the application over HTTP; yields its address."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_types_need_no_suppression(typescript: Path) -> None:
    for name in ("api.d.ts", "smoke.ts"):
        assert "@ts-" not in (typescript / name).read_text("utf-8")


def test_a_typescript_client_calls_every_operation(typescript: Path, tenant: Tenant, app: Flask) -> None:
    list_id, message = tenant.add_list("Customers", PLAIN_FIELDS), tenant.add_message(name="Welcome")
    with serving(app) as base:
        estate: dict[str, Any] = {
            "base": base,
            "token": tenant.tokens["standard"],
            "manager_token": tenant.tokens["manager"],
            "sender_id": tenant.add_sender("61400000001"),
            "list_id": list_id,
            "list_name": "Customers",
            "message_id": message,
            "automation_id": create(tenant, STANDARD),
            "captured_id": capture(tenant, "ann@example.com"),
            "from_address": f"hello@{tenant.domain}",
        }
        command: list[str | Path] = ["node", typescript / "smoke.js", orjson.dumps(estate).decode()]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    operations = [
        operation for item in describe()["paths"].values() for operation in item.values() if isinstance(operation, dict)
    ]
    assert orjson.loads(done.stdout) == sorted(operation["operationId"] for operation in operations)
