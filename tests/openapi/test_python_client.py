"""A Python client that is generated from the description type-checks strictly and does what it says
(docs/openapi.md#generated-clients)."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from flask import Flask

from tests.support.captured import capture
from tests.support.definitions import STANDARD, create
from tests.support.description import describe
from tests.support.tenants import PLAIN_FIELDS, Tenant

HERE = Path(__file__).parent
PROGRAMS = ("__init__.py", "python_calls.py", "python_smoke.py", "python_management.py")
"""What calls the generated client."""


def test_it_type_checks_strictly_without_a_suppression(python_client: Path) -> None:
    programs = python_client / "tests" / "openapi"
    programs.mkdir(parents=True)
    (programs.parent / "__init__.py").touch()
    for name in PROGRAMS:
        shutil.copy(HERE / name, programs)
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--cache-dir",
        python_client / "cache",
    ]
    done = subprocess.run(
        [*command, "tms_client", "tests"],
        check=False,
        cwd=python_client,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    sources = (path.read_text("utf-8") for path in (python_client / "tms_client").rglob("*.py"))
    assert not any("type: ignore" in source for source in sources)


def test_it_calls_every_operation(
    python_client: Path, tenant: Tenant, app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(python_client))
    names = ("python_smoke", "python_management")
    smoke, management = (importlib.import_module(f"tests.openapi.{name}") for name in names)
    clients = {
        level: importlib.import_module("tms_client").AuthenticatedClient(
            base_url="http://localhost",
            token=tenant.tokens[level],
            raise_on_unexpected_status=True,
            httpx_args={"transport": httpx.WSGITransport(app=app)},
        )
        for level in ("standard", "manager")
    }
    list_id, message = tenant.add_list("Customers", PLAIN_FIELDS), tenant.add_message(name="Welcome")
    automation, captured = create(tenant, STANDARD), capture(tenant, "ann@example.com")
    estate = smoke.Estate(list_id, "Customers", message, automation, captured, f"hello@{tenant.domain}")
    called = smoke.call_every_operation(clients["standard"], estate)
    called |= management.call_every_operation(clients["manager"], tenant.add_sender("61400000001"))
    described = {
        operation["operationId"]
        for item in describe()["paths"].values()
        for operation in item.values()
        if isinstance(operation, dict)
    }
    assert called == described
