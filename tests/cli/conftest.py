"""Runs commands as an operator does, in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import Result
from flask import Flask

from tests.support.tenants import Tenant


@dataclass(frozen=True)
class Cli:
    """`flask …` with the account of a test."""

    app: Flask
    account: str | None = None

    def run(self, *arguments: str, **options: Any) -> Result:
        """Runs a command and returns its result, also if it fails."""
        named = () if self.account is None else ("--account", self.account)
        return self.app.test_cli_runner().invoke(args=[*arguments[:2], *named, *arguments[2:]], **options)

    def text(self, *arguments: str, **options: Any) -> str:
        """The output of a command, which must succeed."""
        result = self.run(*arguments, **options)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *arguments: str) -> Any:
        """The parsed output of a command with `--json`."""
        return json.loads(self.text(*arguments, "--json"))

    def acts(self, *filters: str) -> list[tuple[str, str]]:
        """What the audit log says was done, and by which command; the oldest first."""
        return [(entry["action"], entry["via"]) for entry in reversed(self.json("audit", "list", *filters))]

    def refused(self, *arguments: str) -> str:
        """The error of a command that ends with 2: one line on standard error (docs/cli.md)."""
        result = self.run(*arguments)
        assert (result.exit_code, result.stdout) == (2, ""), result.output
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1, result.stderr
        return result.stderr.removeprefix("Error: ").rstrip("\n")


@pytest.fixture
def cli(tenant: Tenant) -> Cli:
    """Commands on a new account."""
    return Cli(tenant.app, tenant.name)


@pytest.fixture
def bare(app: Flask) -> Cli:
    """Commands that name no account."""
    return Cli(app)
