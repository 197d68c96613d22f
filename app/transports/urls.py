"""Reading of transport URLs: strict, so that a slip of the pen is an error at start and not a surprise later.

No error text holds the user or the password of a URL.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from app.transports.base import TransportUrlError

Number = TypeVar("Number", int, float)

WITH_HOST = ("smtp", "smtps", "smpp", "smpps", "kannel+http", "kannel+https")
OPTION = re.compile(r"[a-z_]{1,30}")
"""What may be meant as the name of an option; anything else may be a piece of a password."""
NO_HOST = "the transport URL has no valid host and port; special characters of user and password are written as %xx"


def split(url: str) -> SplitResult:
    """The parts of `url`; raises `TransportUrlError` for one that is no URL."""
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError:  # its text may quote a piece of the password
        raise TransportUrlError(NO_HOST) from None
    if parts.scheme != "file" and "@" in parts.path + parts.query + parts.fragment:
        raise TransportUrlError(NO_HOST)  # a password with / ? or # in it: say nothing of what was read
    return parts


def shown(parts: SplitResult) -> str:
    """The URL without user, password and options, fit for logs and errors."""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def place(url: str) -> str:
    """Where a transport sends to, for people: the folder, or scheme and host. What stands in the URL of a plug-in only
    the plug-in knows, so its scheme has to do."""
    parts = split(url)
    if parts.scheme == "file":
        return unquote(parts.path)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2] if parts.scheme in WITH_HOST else ''}"


def options(parts: SplitResult, known: Collection[str]) -> dict[str, str]:
    """The options after the `?`, each at most once and each one of `known`."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in known:
            accepted = ", ".join(sorted(known)) or "none"
            which = f"option {name!r}" if OPTION.fullmatch(name) else "option"
            raise TransportUrlError(f"{shown(parts)}: unknown {which}; known options: {accepted}")
        if name in found:
            raise TransportUrlError(f"{shown(parts)}: the option {name!r} is given twice")
        found[name] = value
    return found


def number(parts: SplitResult, name: str, text: str, within: tuple[Number, Number]) -> Number:
    """An option's number, of the kind of its limits; raises `TransportUrlError` for anything else."""
    least, most = within
    try:
        found = type(least)(text)
    except ValueError:
        found = None
    if found is None or not least <= found <= most:
        whole = "whole " if isinstance(least, int) else ""
        raise TransportUrlError(f"{shown(parts)}: {name} is a {whole}number from {least} to {most}")
    return found


def folder_path(url: str) -> Path:
    """The absolute folder that a `file:///folder` URL names; raises `TransportUrlError` for anything else."""
    parts = split(url)
    options(parts, ())
    path = Path(unquote(parts.path))
    if parts.netloc not in ("", "localhost") or not path.is_absolute():
        raise TransportUrlError(f"{shown(parts)}: a folder is written with three slashes, as in file:///var/outbox")
    if parts.fragment or "\0" in str(path):
        raise TransportUrlError(f"{shown(parts)}: write # as %23; a folder's name has no NUL")
    return path
