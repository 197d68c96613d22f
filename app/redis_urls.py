"""URLs of Redis: of one server, or of Sentinels that know which server is the master (docs/databases.md#redis)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import unquote

SENTINEL_SCHEME = "redis+sentinel://"
SENTINEL_PORT = 26379
FORM = "redis+sentinel://[[USER]:PASSWORD@]HOST[:PORT],HOST[:PORT],…/SERVICE[/DATABASE]"
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@,/?#\s]+)(?::([0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class SentinelUrl:
    """The Sentinels, by host and port, and what they are asked for: the master of a service, of which a database is
    used with these credentials."""

    sentinels: tuple[tuple[str, int], ...]
    service: str
    database: int
    username: str | None
    password: str | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads a URL with `SENTINEL_SCHEME`. Raises `ValueError` for another form."""
        authority, _, path = text.removeprefix(SENTINEL_SCHEME).partition("/")
        credentials, _, hosts = authority.rpartition("@")
        username, colon, password = credentials.partition(":")
        service, _, database = path.partition("/")
        if (credentials and not colon) or not service or not (database or "0").isdecimal():
            raise ValueError(f"must have the form {FORM}")
        sentinels = tuple(map(_host_and_port, hosts.split(",")))
        return cls(
            sentinels, unquote(service), int(database or 0), unquote(username) or None, unquote(password) or None
        )


def _host_and_port(text: str) -> tuple[str, int]:
    match = HOST.fullmatch(text)
    port = int(match[2] or SENTINEL_PORT) if match else 0
    if match is None or not 0 < port < 1 << 16:
        raise ValueError(f"must have the form {FORM}")
    return match[1].strip("[]"), port


def server_urls(url: str) -> Sequence[str]:
    """The URL of each server that a setting names, without credentials where there are several."""
    if not url.startswith(SENTINEL_SCHEME):
        return [url]
    sentinels = SentinelUrl.parse(url).sentinels
    return [f"redis://[{host}]:{port}" if ":" in host else f"redis://{host}:{port}" for host, port in sentinels]
