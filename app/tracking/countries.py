"""The country of an IP address, from a local table, without a request over the network."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import maxminddb
from geoip2fast import GeoIP2Fast
from maxminddb import InvalidDatabaseError

logger = logging.getLogger(__name__)


IPAddress = IPv4Address | IPv6Address
_loading = threading.Lock()


class PackagedTable:
    """The table that comes with geoip2fast."""

    def __init__(self) -> None:
        self._table = GeoIP2Fast(geoip2fast_data_file=str(files("geoip2fast") / "geoip2fast-ipv6.dat.gz"))

    def country(self, address: IPAddress) -> str | None:
        """The table returns a placeholder for addresses that it does not contain."""
        return _code(self._table.lookup(str(address)).country_code)


class MaxMindTable:
    """A file of countries or cities in MaxMind's format."""

    def __init__(self, path: str) -> None:
        self._reader = maxminddb.open_database(path)

    def country(self, address: IPAddress) -> str | None:
        """The country where the address is used, else where it is registered."""
        location: Any = self._reader.get(address)
        if not isinstance(location, dict):
            return None
        place = location.get("country") or location.get("registered_country") or {}
        return _code(place.get("iso_code"))


def _code(text: str | None) -> str | None:
    """The ISO 3166 alpha-2 code; None for an address that has no country or is not in the table."""
    return text if text and len(text) == 2 and text.isalpha() else None


def country_of(database: str, address: IPAddress | None) -> str | None:
    """The country of a client; `database` is the setting GEOIP_DATABASE. None for an address that is not public."""
    if address is None or not address.is_global:
        return None
    try:
        with _loading:
            table = _table(database)
        return table.country(address)
    except (OSError, ValueError, InvalidDatabaseError):
        logger.exception("cannot look up the country in %s", database or "the table of geoip2fast")
        return None


@lru_cache(maxsize=1)
def _table(database: str) -> PackagedTable | MaxMindTable:
    """The table, loaded at the first lookup, so that processes that never need it do not keep it in memory."""
    return MaxMindTable(database) if database else PackagedTable()


# The names of countries for people, from the package tzdata: no table of our own grows old.


def country_name(code: str) -> str:
    """The English name of the ISO 3166 alpha-2 code; the code itself where the table has none."""
    return _names().get(code, code)


@cache
def _names() -> Mapping[str, str]:
    text = files("tzdata").joinpath("zoneinfo", "iso3166.tab").read_text("utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return dict(line.split("\t", 1) for line in lines)
