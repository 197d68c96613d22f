"""The health check of a container: `python -m jobs.healthcheck`; that of the API also asks it (`--api`). With `--role`
it looks only at processes of that role, where the containers of a pod share a host name.

    0  every process of this host that is registered in DATA_DIR has shown a sign of life
    1  one has not, or there is none, or the API does not answer

The containers of a machine share DATA_DIR, and each has a host name of its own.
"""

from __future__ import annotations

import argparse
import http.client
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from app.infrastructure.liveness import ROLES, STALE_SECONDS, live_processes
from app.settings import Settings, SettingsError, from_environment

ANSWER_SECONDS = 5.0


def main(arguments: Sequence[str]) -> int:
    """Prints one line with what is wrong, if something is."""
    parser = argparse.ArgumentParser(prog="python -m jobs.healthcheck")
    parser.add_argument("--api", action="store_true", help="also ask /healthz")
    parser.add_argument("--role", choices=ROLES, default="", help="only processes of this role")
    given = parser.parse_args(arguments)
    try:
        settings = from_environment()
    except SettingsError as error:
        print(error)
        return 1
    problem = silence(settings.data_dir / "processes", socket.gethostname(), given.role)
    if not problem and given.api:
        problem = api_problem(settings)
    print(problem or "healthy")
    return 1 if problem else 0


def silence(folder: Path, host: str, role: str = "") -> str:
    """Which process of this host, or of this role on it, shows no sign of life; nothing if each does."""
    host_processes = [
        path
        for path in live_processes(folder)
        if path.name.startswith(f"{host}-") and path.stem.endswith(f".{role}" if role else "")
    ]
    if not host_processes:
        return f"no {role} process of {host} runs" if role else f"no process of {host} runs"
    for path in host_processes:
        age = time.time() - path.stat().st_mtime
        if age > STALE_SECONDS:
            return f"{path.stem} has shown no sign of life for {age:.0f} seconds"
    return ""


def api_problem(settings: Settings) -> str:
    """What is wrong with the answer of /healthz; nothing if it is 200."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - compared with
    connection = http.client.HTTPConnection(host, settings.port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"the API does not answer: {error or type(error).__name__}"
    finally:
        connection.close()
    return "" if status == http.client.OK else f"the API answers {status}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
