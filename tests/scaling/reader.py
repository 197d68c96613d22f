"""An entry of the table: a function that reads external text, and the words of which its test texts consist."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

KIB = 1024
MIB = 1024 * KIB
Make = Callable[[int], str]


@dataclass(frozen=True)
class Reader:
    """`largest` is the length of the longest text that reaches the function; `head` and `tail` enclose the words.

    The words are those that have a meaning for the function: openings, ends, separators, escapes. `item` is repeated in
    texts with very many different elements, with a number in place of its `#`.
    """

    name: str
    read: Callable[[str], object]
    words: tuple[str, ...] = ()
    largest: int = 64 * KIB
    head: str = ""
    tail: str = ""
    item: str = ""

    def texts(self) -> Iterator[tuple[str, Make]]:
        """Descriptions and makers of texts of a length: repetitions, also with a different end; one word nested in
        another; two words alternating; many lines; one long line of all words in random order."""
        if self.item:
            yield "very many", self._maker(self._many)
        if not self.words:
            return
        for word in self.words:
            yield f"a run of {word!r}", self._maker(_run, word)
        for first, second in itertools.pairwise((*self.words, self.words[0])):
            both = f"{first!r} and {second!r}"
            yield f"{both}, a run before one", self._maker(_ended, first, second)
            yield f"{both}, a run behind one", self._maker(_begun, first, second)
            yield f"{both}, a run each", self._maker(_halves, first, second)
            yield f"{both} in turn", self._maker(_run, first + second)
        yield "lines", self._maker(_run, "\n".join((*self.words, "")))
        yield "words in no order", self._maker(self._mixed)

    def _maker(self, form: Callable[..., str], *words: str) -> Make:
        def make(size: int) -> str:
            return self.head + form(*words, size) + self.tail

        return make

    def _many(self, size: int) -> str:
        return ",".join(self.item.replace("#", str(number)) for number in range(max(1, size // (len(self.item) + 5))))

    def _mixed(self, size: int) -> str:
        return _in_no_order(self.words, max(1, size * len(self.words) // len("".join(self.words))))


@lru_cache(maxsize=16)
def _in_no_order(words: tuple[str, ...], count: int) -> str:
    """`count` of the words, always the same ones. Choosing them takes longer than most functions take to read them."""
    return "".join(random.Random(1).choices(words, k=count))


def _run(word: str, size: int) -> str:
    return word * max(1, size // len(word))


def _ended(word: str, other: str, size: int) -> str:
    return _run(word, size) + other


def _begun(word: str, other: str, size: int) -> str:
    return other + _run(word, size)


def _halves(word: str, other: str, size: int) -> str:
    return _run(word, size // 2) + _run(other, size // 2)
