"""The names of countries for people, from the package tzdata: no table of our own grows old."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files


def country_name(code: str) -> str:
    """The English name of the ISO 3166 alpha-2 code; the code itself where the table has none."""
    return _names().get(code, code)


@cache
def _names() -> Mapping[str, str]:
    text = files("tzdata").joinpath("zoneinfo", "iso3166.tab").read_text("utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return dict(line.split("\t", 1) for line in lines)
