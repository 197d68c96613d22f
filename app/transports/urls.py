"""Parsing of transport URLs: strict, so that a typo is an error at start-up.

No error text contains the user or the password of a URL.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from app.transports.base import TransportUrlError

Number = TypeVar("Number", int, float)

SCHEMES_WITH_HOST = ("smtp", "smtps", "smpp", "smpps", "kannel+http", "kannel+https")
OPTION_NAME = re.compile(r"[a-z_]{1,30}")
"""A plausible option name, which errors may quote; anything else may be a piece of a password."""
NO_HOST_DETAIL = (
    "the transport URL has no valid host and port; special characters of user and password are written as %xx"
)


def split(url: str) -> SplitResult:
    """The parts of `url`; raises `TransportUrlError` for an invalid one."""
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError:  # its text may quote a part of the password
        raise TransportUrlError(NO_HOST_DETAIL) from None
    if parts.scheme != "file" and "@" in parts.path + parts.query + parts.fragment:
        raise TransportUrlError(NO_HOST_DETAIL)  # a password with / ? or # in it: quote nothing of it
    return parts


def redacted(parts: SplitResult) -> str:
    """The URL without user, password and options, for logs and errors."""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def display_url(url: str) -> str:
    """The transport for display: the folder, or scheme and host; for a plug-in's URL only the scheme, because the rest
    may contain secrets."""
    parts = split(url)
    if parts.scheme == "file":
        return unquote(parts.path)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2] if parts.scheme in SCHEMES_WITH_HOST else ''}"


def options(parts: SplitResult, option_names: Collection[str]) -> dict[str, str]:
    """The options after the `?`, each at most once and each one of `known`."""
    values: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in option_names:
            accepted = ", ".join(sorted(option_names)) or "none"
            which = f"option {name!r}" if OPTION_NAME.fullmatch(name) else "option"
            raise TransportUrlError(f"{redacted(parts)}: unknown {which}; known options: {accepted}")
        if name in values:
            raise TransportUrlError(f"{redacted(parts)}: the option {name!r} is given twice")
        values[name] = value
    return values


def number(parts: SplitResult, name: str, text: str, within: tuple[Number, Number]) -> Number:
    """An option's number, of the same type as its limits; raises `TransportUrlError` for anything else."""
    least, most = within
    try:
        value = type(least)(text)
    except ValueError:
        value = None
    if value is None or not least <= value <= most:
        whole = "whole " if isinstance(least, int) else ""
        raise TransportUrlError(f"{redacted(parts)}: {name} is a {whole}number from {least} to {most}")
    return value


def folder_path(url: str) -> Path:
    """The absolute folder that a `file:///folder` URL names; raises `TransportUrlError` for anything else."""
    parts = split(url)
    options(parts, ())
    path = Path(unquote(parts.path))
    if parts.netloc not in ("", "localhost") or not path.is_absolute():
        raise TransportUrlError(f"{redacted(parts)}: a folder is written with three slashes, as in file:///var/outbox")
    if parts.fragment or "\0" in str(path):
        raise TransportUrlError(f"{redacted(parts)}: write # as %23; a folder's name has no NUL")
    return path
