"""Writes docs/settings.md from the settings: `python -m app.generated_docs.settings`, called by `make docs`."""

from __future__ import annotations

from dataclasses import Field, fields
from typing import Any

from app.settings import Settings, variable_of

HEAD = """\
# Settings

Environment variables. `make run`, the processes of the `Procfile`, `flask --app wsgi …` and `tms` read the same ones.
An empty variable counts as not set; an invalid value is reported in one line, with exit status 2. Switches take
`1 0 on off true false yes no`. A variable that looks like a misspelt setting, such as `EMAIL_TRANSPORT`, is reported at
the start of each process and by each command, with the setting that is nearest to it; each process also logs which
database and transports it uses, without users, passwords and options.

A setting that may contain a secret, marked with †, can stand in a file instead, which the variable with `_FILE` at its
end names: `SECRET_KEY_FILE=/run/secrets/secret_key`. `deploy/environment.example` is this table
as a file to fill in.

A retention is a number of hours, days or weeks, such as `12h`, `7d` or `4w`, or `off`. `RETENTION_DAYS` and
`IDEMPOTENCY_HOURS`, numbers without a unit, are still read where their successors are not set: `RETAIN_LOGS` and
`RETAIN_CAPTURED`, and `RETAIN_IDEMPOTENCY`.

This page is generated from `app/settings.py` by `make docs`.

| variable | default | meaning |
| --- | --- | --- |
"""

OTHERS = """
Only `make run` reads `RECEIVER_PORT`: the port of the demo's webhook receiver, kept in `DATA_DIR/receiver_port` from
the first start on (default: the one after `PORT`, or any free port).
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(_row(one) for one in fields(Settings)) + OTHERS


def _row(one: Field[Any]) -> str:
    mark = " †" if one.metadata["secret"] else ""
    meaning = one.metadata["meaning"].replace("|", r"\|")
    return f"| `{variable_of(one)}`{mark} | {_default(one)} | {meaning} |\n"


def _default(one: Field[Any]) -> str:
    """The documented default, or else the value as it would be written into the variable."""
    if one.metadata["shown"]:
        return str(one.metadata["shown"])
    if isinstance(one.default, bool):
        return "`on`" if one.default else "`off`"
    return f"`{one.default:g}`" if isinstance(one.default, float) else f"`{one.default}`"


if __name__ == "__main__":
    print(page(), end="")
