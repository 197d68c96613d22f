"""Writes docs/settings.md from the settings: `python -m tools.generated_docs.settings`, called by `make docs`."""

from __future__ import annotations

from dataclasses import Field, fields
from typing import Any

from app.settings import Settings, variable_of

HEAD = """\
# Settings

Environment variables. All processes and commands read the same ones.
An empty variable counts as not set; an invalid value is reported in one line, with exit status 2. Switches take
`1 0 on off true false yes no`. A variable that looks like a misspelt setting, such as `EMAIL_TRANSPORT`, is reported at
the start of each process and by each command, with the setting that is nearest to it; each process also logs which
database and transports it uses, without users, passwords and options.

A setting marked with † may contain a secret. It can stand in a file instead, which the variable with `_FILE` at its end
names: `SECRET_KEY_FILE=/run/secrets/secret_key`. `deploy/environment.example` is this table as a file to fill in.

A retention is a number of hours, days or weeks, such as `12h`, `7d` or `4w`, or `off`. Two former settings, numbers
without a unit, are still read: `RETENTION_DAYS` where `RETAIN_LOGS` or `RETAIN_CAPTURED` is not set, and
`IDEMPOTENCY_HOURS` where `RETAIN_IDEMPOTENCY` is not set.

This page is generated from `app/settings.py` by `make docs`.

| variable | default | meaning |
| --- | --- | --- |
"""

OTHER_VARIABLES = """
Only `make run` reads `RECEIVER_PORT`: the port of the demo's webhook receiver, kept in `DATA_DIR/receiver_port` from
the first start on (default: the one after `PORT`, or any free port).
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(_row(setting) for setting in fields(Settings)) + OTHER_VARIABLES


def _row(setting: Field[Any]) -> str:
    mark = " †" if setting.metadata["secret"] else ""
    meaning = setting.metadata["meaning"].replace("|", r"\|")
    return f"| `{variable_of(setting)}`{mark} | {_default(setting)} | {meaning} |\n"


def _default(setting: Field[Any]) -> str:
    """The documented default, or else the value as it would be written into the variable."""
    if setting.metadata["shown"]:
        return str(setting.metadata["shown"])
    if isinstance(setting.default, bool):
        return "`on`" if setting.default else "`off`"
    return f"`{setting.default:g}`" if isinstance(setting.default, float) else f"`{setting.default}`"


if __name__ == "__main__":
    print(page(), end="")
