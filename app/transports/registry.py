"""Selects the transport for a URL by its scheme: first the built-in ones, then those of installed packages.

A package provides a transport as an entry point of the group `tms.transports`: its name is the scheme, and its object
is called with the URL, as in `carrierpigeon = "pigeons.transport:from_url"`. It raises `TransportUrlError` for an
invalid URL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import TypeVar, cast

from app.transports import urls
from app.transports.base import Transport, TransportUrlError

ENTRY_POINT_GROUP = "tms.transports"

Message = TypeVar("Message")


def transport_for(url: str, built_in: Mapping[str, Callable[[str], Transport[Message]]]) -> Transport[Message]:
    """The transport that `url` describes.

    Raises `TransportUrlError` if no transport has its scheme or the transport rejects the rest of it.
    """
    scheme = urls.split(url).scheme
    make = built_in.get(scheme) or cast("Callable[[str], Transport[Message]] | None", _installed(scheme))
    if make is None:
        # Without slashes, the part before the colon may be a user name in front of a password.
        raise TransportUrlError(_unknown_scheme(scheme if "://" in url else "", sorted(built_in)))
    return make(url)


def _installed(scheme: str) -> object | None:
    for point in entry_points(group=ENTRY_POINT_GROUP, name=scheme):
        try:
            return cast("object", point.load())
        except (ImportError, AttributeError) as error:
            raise TransportUrlError(f"the transport {scheme}:// ({point.value}) cannot be loaded: {error}") from error
    return None


def _unknown_scheme(scheme: str, known_schemes: list[str]) -> str:
    if not scheme:
        return f"the transport URL has no scheme; it begins with one of {_scheme_list(known_schemes)}"
    return f"unknown transport {scheme}://; known: {_scheme_list(known_schemes)} and schemes of installed packages"


def _scheme_list(schemes: list[str]) -> str:
    return ", ".join(f"{scheme}://" for scheme in schemes)
