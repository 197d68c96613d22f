"""Runs a command with an empty PostgreSQL database: `python -m tests.support.with_postgres VARIABLE COMMAND...`.

The database's URL is in the environment variable of that name.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.servers import postgres_server, scratch_database


def main(variable: str, command: list[str]) -> int:
    with postgres_server() as server, scratch_database(server) as database_url:
        return subprocess.run(command, env={**os.environ, variable: database_url}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
