"""The addresses of PostgreSQL's hosts, looked up before the driver does it without a deadline."""

from __future__ import annotations

from typing import Any

import psycopg

from app.network.lookup import look_up

PORT = "5432"


def with_addresses(options: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The driver's options, with `hostaddr` for each host in `host`: one entry per address, in the order given.

    Raises `psycopg.OperationalError` if no host has an address, and its subclass `ConnectionTimeout` if that is because
    of a name server that does not answer within `seconds`.
    """
    hosts = str(options.get("host") or "").split(",")
    if options.get("hostaddr") or not all(hosts) or any(_is_socket(host) for host in hosts):
        return options
    ports = str(options.get("port") or PORT).split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    places, failure = _places(zip(hosts, ports, strict=False), seconds / len(hosts))
    if not places:
        raise _error(failure)
    host, port, address = (",".join(one) for one in zip(*places, strict=True))
    return {**options, "host": host, "port": port, "hostaddr": address}


def _places(hosts: Any, seconds: float) -> tuple[list[tuple[str, str, str]], OSError | None]:
    """Host, port and address of each address, and the last failure."""
    places: list[tuple[str, str, str]] = []
    failure: OSError | None = None
    for host, port in hosts:
        try:
            places += [(host, port or PORT, address) for address in look_up(host, seconds)]
        except OSError as error:
            failure = error
    return places, failure


def _is_socket(host: str) -> bool:
    """Whether it is the folder of a Unix socket, or an abstract one."""
    return host[0] in "/@"


def _error(failure: OSError | None) -> psycopg.OperationalError:
    if isinstance(failure, TimeoutError):
        return psycopg.errors.ConnectionTimeout(str(failure))
    return psycopg.OperationalError(f"the host of the database cannot be looked up: {failure}")
