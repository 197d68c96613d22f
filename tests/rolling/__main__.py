"""`make rolling`: upgrades the running service under load, and fails if a client notices."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.chaos.table import lines
from tests.rolling.launcher import launched, reload
from tests.rolling.service import Service
from tests.rolling.upgrade import Result, run
from tests.support.servers import postgres_server, redis_server, scratch_database, short_folder

FREQUENT = ('"logger":"app.access"', '"logger":"app.sends.outcomes.write"')
"""What is left out of the log when it is shown."""
HEAD = ("database", "accepted", "refused", "lost", "doubled", "seconds")
DATABASES = ("postgresql", "sqlite")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make rolling", description=__doc__)
    parser.add_argument(
        "--short", action="store_true", help="on PostgreSQL, from this code to the next, with few clients: what CI runs"
    )
    parser.add_argument("--sqlite", action="store_true", help="on SQLite alone")
    options = parser.parse_args()
    clean, rows = True, []
    for name in DATABASES[:1] if options.short else DATABASES[1:] if options.sqlite else DATABASES:
        for title, steps in (name, _upgrade), (f"{name}, make run", _reload):
            result, seconds = _timed(title, name, partial(steps, short=options.short))
            clean = clean and result.is_clean
            counts = (result.accepted, len(result.refused), len(result.lost), len(result.doubled), round(seconds))
            rows.append((title, *map(str, counts)))
    print("", *lines(rows, HEAD), "", sep="\n")
    print("no client has noticed anything" if clean else "clients were REFUSED, or messages LOST or DOUBLED")
    return 0 if clean else 1


def _timed(title: str, name: str, steps: Callable[[Path, str], Result]) -> tuple[Result, float]:
    """The result of the steps on a new database, and the seconds that they took."""
    with short_folder() as folder, _database(name) as database_url:
        began = time.monotonic()
        result = steps(folder, database_url)
        seconds = time.monotonic() - began
        counts = f"{len(result.refused)} refused, {len(result.lost)} lost, {len(result.doubled)} doubled"
        print(f"{title}: {result.accepted} accepted in {seconds:.0f} s, {counts}", flush=True)
        for line in (result.left_out, *result.refused[:10], *result.lost[:10], *result.doubled[:10]):
            if line:
                print(f"  {line}", flush=True)
        return result, seconds


def _upgrade(folder: Path, database_url: str, *, short: bool) -> Result:
    with redis_server() as redis_url:
        service = Service(folder, database_url, redis_url)
        try:
            return run(service, short=short)
        except AssertionError:
            print(*_told(service.log()), sep="\n", file=sys.stderr)
            raise


def _reload(folder: Path, database_url: str, *, short: bool) -> Result:
    service = launched(folder, database_url)
    try:
        return reload(service, folder, short=short)
    except AssertionError:
        print(*_told(service.output()), sep="\n", file=sys.stderr)
        raise


def _told(log: str) -> list[str]:
    """The last lines of a log without the frequent ones."""
    return [line for line in log.splitlines() if not any(part in line for part in FREQUENT)][-60:]


@contextlib.contextmanager
def _database(name: str) -> Iterator[str]:
    """The URL of a new database, empty for SQLite."""
    if name == "sqlite":
        yield ""
        return
    with postgres_server() as server_url, scratch_database(server_url) as url:
        yield url


if __name__ == "__main__":
    sys.exit(main())
