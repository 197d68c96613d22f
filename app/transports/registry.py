"""Finds the transport for a URL by its scheme: the built-in ones first, then those of installed packages.

A package offers a transport as an entry point of the group `tms.transports` whose name is the scheme and whose object
is called with the URL, as in `carrierpigeon = "pigeons.transport:from_url"`. It raises `TransportUrlError` for a URL
it cannot use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import TypeVar, cast

from app.transports import urls
from app.transports.base import Transport, TransportUrlError

GROUP = "tms.transports"

Message = TypeVar("Message")


def transport_for(url: str, built_in: Mapping[str, Callable[[str], Transport[Message]]]) -> Transport[Message]:
    """The transport that `url` describes.

    Raises `TransportUrlError` when no transport has its scheme or the transport cannot use the rest of it.
    """
    scheme = urls.split(url).scheme
    make = built_in.get(scheme) or cast("Callable[[str], Transport[Message]] | None", _installed(scheme))
    if make is None:
        # Without slashes it may be a user and a password that stand alone.
        raise TransportUrlError(_unknown(scheme if "://" in url else "", sorted(built_in)))
    return make(url)


def _installed(scheme: str) -> object | None:
    for point in entry_points(group=GROUP, name=scheme):
        try:
            return cast("object", point.load())
        except (ImportError, AttributeError) as error:
            raise TransportUrlError(f"the transport {scheme}:// ({point.value}) cannot be loaded: {error}") from error
    return None


def _unknown(scheme: str, known: list[str]) -> str:
    if not scheme:
        return f"the transport URL has no scheme; it begins with one of {_listed(known)}"
    return f"unknown transport {scheme}://; available are {_listed(known)} and those of installed packages"


def _listed(schemes: list[str]) -> str:
    return ", ".join(f"{scheme}://" for scheme in schemes)
