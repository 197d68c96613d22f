"""Reading the text of clients and strangers takes time proportional to its length, whatever it contains.

The table lists the functions; each reads texts of n and of 8n characters that are designed to be hard for it. The cost
per character may grow by half, which is noise: quadratic time makes it grow eightfold.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.scaling.files import IN_FILES
from tests.scaling.inbound import INBOUND
from tests.scaling.reader import KIB, Reader
from tests.scaling.requests import IN_REQUESTS
from tests.scaling.sends import IN_SENDS
from tests.scaling.submission import SUBMISSION
from tests.support.growth import MOST_GROWTH, growth

LONGER = 0.002
"""Seconds of the smaller text if the two are compared again: quadratic growth with a small factor shows late."""


@pytest.mark.parametrize(
    "reader", [*IN_REQUESTS, *IN_SENDS, *INBOUND, *SUBMISSION, *IN_FILES], ids=lambda reader: reader.name
)
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
        text = text.replace("y", "")[1:]
    return text


def _distinguish(text: str) -> object:
    seen: list[str] = []
    for word in map(str, range(len(text))):
        if word not in seen:
            seen.append(word)
    return seen


@pytest.mark.parametrize(
    ("read", "grows"),
    [(_strip_blanks, True), (_shorten, True), (_distinguish, True), (str.split, False), (str.upper, False)],
)
def test_quadratic_growth_is_detected(read: Callable[[str], object], grows: bool) -> None:
    ratio = growth(read, lambda size: " " * size, 32 * KIB, long_enough=LONGER / 4)
    assert (ratio > MOST_GROWTH) is grows
