"""What is made of the text of clients and strangers is at most a few times as long, or has a limit of its own.

A limit on what comes in bounds memory only if nothing behind it repeats, joins or unpacks what it let through. The
table lists the functions that write; each gets texts designed to become long.
"""

from __future__ import annotations

import pytest

from tests.scaling.outputs import WRITERS, Writer
from tests.scaling.reader import KIB

EXAMPLE = Writer("an example", lambda text: text.replace("a", "a" * 100), ("a", "b"), 4)


def worst(writer: Writer) -> tuple[float, str]:
    """Beyond its limit by how much, at most, and for which texts."""
    largest = (0.0, "")
    for name, make in writer.texts.texts():
        text = make(writer.largest)
        largest = max(largest, (writer.size(text) / (writer.times * len(text.encode()) + writer.also), name))
    return largest


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.name)
def test_what_is_made_of_a_text_is_bounded_by_its_length(writer: Writer) -> None:
    share, text = worst(writer)
    assert share <= 1, text


def test_a_text_that_is_repeated_for_each_of_its_references_is_detected() -> None:
    share, text = worst(EXAMPLE)
    assert share > 1, text
    assert EXAMPLE.size("a" * KIB) == 100 * KIB
