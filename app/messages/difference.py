"""What differs between two versions of a stored message, field by field and line by line (docs/contacts.md#versions).

The texts are those of strangers, so the time is bounded: texts are compared by the lines that each of them has exactly
once, in at most `MAX_PASSES` passes, and short pieces between those by a table. What neither finds counts as replaced.
Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

BODY_FIELDS = ("body_html", "body_text")
NO_LINE_LIMIT = 2**31
"""More lines than any text has."""
CONTEXT = 3
"""Equal lines that are shown before and after those that differ."""
MAX_LINES = 20_000
"""Lines of both texts together, without those at the beginning and the end that are equal; of more, all differ."""
MAX_PASSES = 8
"""Passes in which the pieces between equal lines are compared again."""
MAX_PIECE_CELLS = 10_000
"""Cells that the table of one piece may have: its lines in one text times those in the other."""
MAX_TOTAL_CELLS = 1_000_000
"""Cells that all tables of a comparison may have together."""

Run = tuple[int, int, int]
"""Equal lines: the first in one text, the first in the other, and how many."""
Place = tuple[int, int, int, int]
"""A piece of both texts: from and to in one, from and to in the other."""
Kind = Literal["same", "removed", "added"]


@dataclass(frozen=True, slots=True)
class Line:
    """A line, with its numbers in the texts that have it, from 1 on."""

    kind: Kind
    text: str
    old: int | None = None
    new: int | None = None


Hunk = Sequence[Line]
"""Lines that differ, with equal ones before, between and after."""


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field that differs; of a body also the lines."""

    field: str
    before: str | None
    after: str | None
    hunks: Sequence[Hunk]
    is_cut: bool
    """Whether further lines differ."""

    @property
    def is_body(self) -> bool:
        """Whether the attribute is compared by lines."""
        return self.field in BODY_FIELDS


def differences(
    before: Mapping[str, str | None], after: Mapping[str, str | None], most: int = NO_LINE_LIMIT
) -> list[FieldDifference]:
    """The fields that differ, with the first `most` lines of each."""
    return [
        FieldDifference(name, old, after[name], *compare(lines_of(old), lines_of(after[name]), most))
        for name, old in before.items()
        if old != after[name]
    ]


def lines_of(text: str | None) -> list[str]:
    """The lines between line feeds; of null none."""
    return [] if text is None else text.split("\n")


def compare(old: Sequence[str], new: Sequence[str], most: int = NO_LINE_LIMIT) -> tuple[list[Hunk], bool]:
    """The lines that differ, with `CONTEXT` equal ones around them: the first `most`, and whether there are more."""
    hunks: list[Hunk] = []
    for places in _hunk_places(_pieces(_Comparison(old, new).runs, len(old), len(new))):
        if most == 0:
            return hunks, True
        lines = _lines(old, new, places)
        hunks.append(list(islice(lines, most)))
        most -= len(hunks[-1])
        if next(lines, None) is not None:
            return hunks, True
    return hunks, False


def unified(field: FieldDifference, before: str, after: str) -> Iterator[str]:
    """The difference of the field as lines of a unified diff."""
    yield f"--- {field.field} ({before})"
    yield f"+++ {field.field} ({after})"
    for hunk in field.hunks:
        yield f"@@ -{_range([line.old for line in hunk])} +{_range([line.new for line in hunk])} @@"
        for line in hunk:
            yield f"{ {'same': ' ', 'removed': '-', 'added': '+'}[line.kind] }{line.text}"


def _range(numbers: Sequence[int | None]) -> str:
    line_numbers = [number for number in numbers if number is not None]
    return f"{line_numbers[0]},{len(line_numbers)}" if line_numbers else "0,0"


def _pieces(runs: Sequence[Run], old_length: int, new_length: int) -> Iterator[Place]:
    """The pieces between the equal lines."""
    old = new = 0
    for first, second, count in [*runs, (old_length, new_length, 0)]:
        if first > old or second > new:
            yield old, first, new, second
        old, new = first + count, second + count


def _hunk_places(places: Iterable[Place]) -> Iterator[list[Place]]:
    """Pieces of which the equal lines around them meet are one hunk."""
    hunk: list[Place] = []
    for place in places:
        if hunk and place[0] - hunk[-1][1] > 2 * CONTEXT:
            yield hunk
            hunk = []
        hunk.append(place)
    if hunk:
        yield hunk


def _lines(old: Sequence[str], new: Sequence[str], places: Sequence[Place]) -> Iterator[Line]:
    """The lines of a hunk."""
    at, shift = max(0, places[0][0] - CONTEXT), places[0][2] - places[0][0]
    for old_from, old_to, new_from, new_to in places:
        yield from (Line("same", old[index], index + 1, index + 1 + shift) for index in range(at, old_from))
        yield from (Line("removed", old[index], old=index + 1) for index in range(old_from, old_to))
        yield from (Line("added", new[index], new=index + 1) for index in range(new_from, new_to))
        at, shift = old_to, new_to - old_to
    yield from (
        Line("same", old[index], index + 1, index + 1 + shift) for index in range(at, min(at + CONTEXT, len(old)))
    )


class _Comparison:
    """Finds equal lines of two texts, in the same order in both."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        numbers: dict[str, int] = {}
        self._old = [numbers.setdefault(line, len(numbers)) for line in old]
        self._new = [numbers.setdefault(line, len(numbers)) for line in new]
        self._cells = MAX_TOTAL_CELLS
        self.runs: list[Run] = []
        self._match((0, len(old), 0, len(new)), MAX_PASSES)

    def _match(self, place: Place, passes: int) -> None:
        """The equal lines at the beginning and the end, and those between."""
        old_from, old_to, new_from, new_to = place
        most, head = min(old_to - old_from, new_to - new_from), 0
        while head < most and self._old[old_from + head] == self._new[new_from + head]:
            head += 1
        tail = 0
        while tail < most - head and self._old[old_to - tail - 1] == self._new[new_to - tail - 1]:
            tail += 1
        if head:
            self.runs.append((old_from, new_from, head))
        between = old_from + head, old_to - tail, new_from + head, new_to - tail
        if between[0] < between[1] and between[2] < between[3]:
            self._match_between(between, passes)
        if tail:
            self.runs.append((old_to - tail, new_to - tail, tail))

    def _match_between(self, place: Place, passes: int) -> None:
        old_from, old_to, new_from, new_to = place
        lines, cells = old_to - old_from + new_to - new_from, (old_to - old_from) * (new_to - new_from)
        if cells <= min(MAX_PIECE_CELLS, self._cells):
            self._cells -= cells
            self.runs += self._table(place)
        elif passes and lines <= MAX_LINES and (anchors := self._anchors(place)):
            for old, new in anchors:
                self._match((old_from, old, new_from, new), passes - 1)
                self.runs.append((old, new, 1))
                old_from, new_from = old + 1, new + 1
            self._match((old_from, old_to, new_from, new_to), passes - 1)

    def _anchors(self, place: Place) -> list[tuple[int, int]]:
        """The lines that each text has once, as many as are in the same order in both."""
        old, new = _unique_places(self._old, place[0], place[1]), _unique_places(self._new, place[2], place[3])
        common = [(at, there) for line, at in old.items() if at >= 0 and (there := new.get(line, -1)) >= 0]
        return _longest_rising(common)

    def _table(self, place: Place) -> list[Run]:
        """The longest common subsequence of lines."""
        old_from, old_to, new_from, new_to = place
        columns = range(new_to - 1, new_from - 1, -1)
        rows = [[0] * (new_to - new_from + 1)]
        for old in range(old_to - 1, old_from - 1, -1):
            below, row = rows[-1], [0] * (new_to - new_from + 1)
            for new in columns:
                at = new - new_from
                same = self._old[old] == self._new[new]
                row[at] = below[at + 1] + 1 if same else max(below[at], row[at + 1])
            rows.append(row)
        rows.reverse()
        return list(self._path(place, rows))

    def _path(self, place: Place, rows: Sequence[Sequence[int]]) -> Iterator[Run]:
        """The way through a table on which most lines are equal."""
        old, new = place[0], place[2]
        while old < place[1] and new < place[3]:
            if self._old[old] == self._new[new]:
                yield old, new, 1
                old, new = old + 1, new + 1
            elif rows[old + 1 - place[0]][new - place[2]] >= rows[old - place[0]][new + 1 - place[2]]:
                old += 1
            else:
                new += 1


def _unique_places(lines: Sequence[int], first: int, end: int) -> dict[int, int]:
    """Line -> its place, or -1 if it comes again, in the order of their first places."""
    places: dict[int, int] = {}
    for place in range(first, end):
        places[lines[place]] = -1 if lines[place] in places else place
    return places


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of the pairs, which rise by their first number, that rises by the second one, too."""
    ends: list[int] = []
    lasts: list[int] = []
    before: list[int] = []
    for place, (_, second) in enumerate(pairs):
        at = bisect_left(ends, second)
        before.append(lasts[at - 1] if at else -1)
        ends[at : at + 1], lasts[at : at + 1] = [second], [place]
    longest, place = [], lasts[-1] if lasts else -1
    while place >= 0:
        longest.append(pairs[place])
        place = before[place]
    return longest[::-1]
