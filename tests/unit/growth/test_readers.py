"""What reads the texts of clients and strangers takes time in proportion to them, whatever they are.

The table names the functions; each reads texts of n and of 8n characters that are made to be hard for it. The cost per
character may grow by half, which is noise: where it is a square it grows eightfold.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.support.growth import MOST_GROWTH, growth
from tests.unit.growth.inbound import INBOUND
from tests.unit.growth.reader import KIB, Reader
from tests.unit.growth.requests import IN_REQUESTS
from tests.unit.growth.sends import IN_SENDS

LONGER = 0.002
"""Seconds of the smaller text where the two are compared once more: squares with a small factor show late."""


@pytest.mark.parametrize("reader", [*IN_REQUESTS, *IN_SENDS, *INBOUND], ids=lambda reader: reader.name)
def test_the_cost_of_a_character_does_not_grow(reader: Reader) -> None:
    texts = list(reader.texts())
    for text, make in texts:
        assert growth(reader.read, make, reader.largest) <= MOST_GROWTH, text
    text, make = texts[-1]
    assert growth(reader.read, make, reader.largest, long_enough=LONGER) <= MOST_GROWTH, text


def _strip_blanks(text: str) -> object:
    return re.sub(" *x", "", text)


def _shorten(text: str) -> object:
    while text:
        text = text[1:]
    return text


def _tell_apart(text: str) -> object:
    seen: list[str] = []
    for word in map(str, range(len(text))):
        if word not in seen:
            seen.append(word)
    return seen


@pytest.mark.parametrize(
    ("read", "grows"),
    [(_strip_blanks, True), (_shorten, True), (_tell_apart, True), (str.split, False), (str.upper, False)],
)
def test_a_square_is_noticed(read: Callable[[str], object], grows: bool) -> None:
    found = growth(read, lambda size: " " * size, 32 * KIB, long_enough=LONGER / 4)
    assert (found > MOST_GROWTH) is grows
