"""A PgBouncer in front of a PostgreSQL server, which Debian's package has installed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from sqlalchemy import make_url

from tests.support.servers import free_port, short_folder, wait_until

Mode = Literal["session", "transaction"]

SETTINGS = """
[databases]
{name} = host={host} port={database_port} dbname={name} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 500
user = {owner}
logfile = {log}
"""
SIZES = {"session": 80, "transaction": 3}
"""Connections to the server: fewer than the service has to it, where they are shared."""


@contextmanager
def pgbouncer(database_url: str, mode: Mode) -> Iterator[str]:
    """The URL of the database that leads through it."""
    url, port = make_url(database_url), free_port()
    with short_folder() as folder:
        log = folder / "pgbouncer.log"
        folder.chmod(0o755)
        log.touch()
        log.chmod(0o666)  # it runs as the owner of the socket
        settings = SETTINGS.format(
            name=url.database,
            host=url.query["host"],
            database_port=url.port or 5432,
            user=url.username or "postgres",
            port=port,
            mode=mode,
            size=SIZES[mode],
            log=log,
            owner=Path(str(url.query["host"])).owner(),
        )
        (folder / "pgbouncer.ini").write_text(settings)
        process = subprocess.Popen(["/usr/sbin/pgbouncer", str(folder / "pgbouncer.ini")], stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: "process up" in log.read_text(), "PgBouncer is up")
            yield f"postgresql://{url.username or 'postgres'}@127.0.0.1:{port}/{url.database}"
        finally:
            process.terminate()
            process.wait()
