"""Readers with a fault each, which every run must find: otherwise its silence would mean nothing."""

from __future__ import annotations

import re

from tests.fuzz.targets import Target

INPUTS = 20_000


def _fails(data: bytes) -> None:
    if b"%%" in data and b"a:" in data:
        raise LookupError("planted")


def _grows(data: bytes) -> None:
    re.sub(rb" *x", b"", data)


PLANTED = (
    Target("a reader that fails", _fails, (b"%%", b"a", b":"), (b"a",), INPUTS),
    Target("a reader whose time grows", _grows, (b" ", b"x"), (b" ", b"x"), INPUTS),
)
