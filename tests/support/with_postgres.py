"""Runs a command with an empty PostgreSQL database: `python -m tests.support.with_postgres VARIABLE COMMAND...`.

The database's URL is in the environment variable of that name. With `--pgbouncer` in front, the command runs twice: the
URL leads through a PgBouncer in session mode, and then through one in transaction mode.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext

from tests.support.pgbouncer import Mode, pgbouncer
from tests.support.servers import postgres_server, scratch_database

POOLED = "--pgbouncer"
MODES: Sequence[Mode] = ("session", "transaction")


def main(arguments: Sequence[str]) -> int:
    modes: Sequence[Mode | None] = MODES if arguments[0] == POOLED else (None,)
    variable, *command = arguments[arguments[0] == POOLED :]
    with postgres_server() as server:
        return max(_run(server, variable, command, mode) for mode in modes)


def _run(server: str, variable: str, command: Sequence[str], mode: Mode | None) -> int:
    """The exit status of the command on a database of its own."""
    with scratch_database(server) as database, pgbouncer(database, mode) if mode else nullcontext(database) as url:
        return subprocess.run(command, env={**os.environ, variable: url}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
