"""Lays a body out as a flat list of steps: which conditionals are whole, and where each branch leads.

There is no tree and no recursion, so that neither ten thousand levels of nesting nor as many unclosed markers cost
more than their length. A conditional that is never closed, one that overlaps another and a branch marker that stands
where it means nothing become text again, exactly as written (docs/personalisation.md#invalid-markup).
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from app.content.conditions import Condition
from app.content.wildcards import Fence, Inline, Kind, Token, Wildcard
from app.content.wildcards import tokens as cut


@dataclass(slots=True)
class Exit:
    """The end of a conditional, as a step: go on at `position`. All branches of a conditional share one."""

    position: int = 0


@dataclass(slots=True)
class Branch:
    """The start of a branch: when its conditions do not hold, go on at `otherwise`. ELSE has no conditions."""

    conditions: tuple[Condition, ...]
    exit: Exit
    otherwise: int = 0


Step: TypeAlias = str | Wildcard | Inline | Branch | Exit

_OPENING = (Kind.IF, Kind.UNKNOWN)


def steps(tokens: Iterable[Token]) -> list[Step]:
    """The steps to walk for each recipient; runs of text are one step each."""
    return _linked(_joined(_placed(_paired(list(tokens)))))


def unconditional_text(source: str) -> str:
    """The text of a source that every reader gets: outside of conditionals, fallbacks included. What a marker stands
    for is not known here, so each of them is a gap between words."""
    depth, text = 0, list[str]()
    for token in _placed(_paired(list(cut(source)))):
        if isinstance(token, Fence):
            depth += (token.kind is Kind.IF) - (token.kind is Kind.END)
            text.append(" ")
        elif depth == 0:
            text.append(_certain(token))
    return "".join(text)


def _certain(token: str | Wildcard | Inline) -> str:
    match token:
        case str():
            return token
        case Wildcard():
            return f" {token.fallback} "
        case Inline():
            return " "


def _paired(tokens: list[Token]) -> list[Token]:
    """Turns openings and ENDs that have no partner into text. An END closes the last opening of its own key."""
    waiting: list[tuple[int, str]] = []  # position and key of the openings not closed so far
    keys: Counter[str] = Counter()  # how many of them each key has, so that a stray END costs nothing
    whole: set[int] = set()
    for position, token in enumerate(tokens):
        if not isinstance(token, Fence):
            continue
        if token.kind in _OPENING:
            waiting.append((position, token.key))
            keys[token.key] += 1
        elif token.kind is Kind.END and keys[token.key]:
            whole |= {position, _close(token.key, waiting, keys)}
    return [
        token.source
        if isinstance(token, Fence) and token.kind in (*_OPENING, Kind.END) and position not in whole
        else token
        for position, token in enumerate(tokens)
    ]


def _close(key: str, waiting: list[tuple[int, str]], keys: Counter[str]) -> int:
    """The position of the opening that an END closes; openings inside it can no longer be closed and are dropped."""
    while True:
        position, opened = waiting.pop()
        keys[opened] -= 1
        if opened == key:
            return position


def _placed(tokens: list[Token]) -> list[Token]:
    """Turns into text every ELSE and ELSEIF out of its place, and all markers of conditionals not understood."""
    around: list[Fence] = []  # the last marker of each conditional around the token
    placed: list[Token] = []
    for token in tokens:
        if not isinstance(token, Fence):
            placed.append(token)
        elif token.kind in _OPENING:
            around.append(token)
            placed.append(token if token.kind is Kind.IF else token.source)
        elif token.kind is Kind.END:
            placed.append(token.source if around.pop().kind is Kind.UNKNOWN else token)
        elif around and around[-1].key == token.key and around[-1].kind in (Kind.IF, Kind.ELSEIF):
            around[-1] = token
            placed.append(token)
        else:
            placed.append(token.source)
    return placed


def _joined(tokens: list[Token]) -> list[Token]:
    joined: list[Token] = []
    for is_text, run in groupby(tokens, key=lambda token: isinstance(token, str)):
        if is_text:
            joined.append("".join(text for text in run if isinstance(text, str)))
        else:
            joined.extend(run)
    return [token for token in joined if token != ""]


def _linked(tokens: list[Token]) -> list[Step]:
    """Replaces the markers, which are all in their places by now, with steps that know where to go on."""
    linked: list[Step] = []
    current: list[Branch] = []  # the branch being laid out in each conditional around the token
    for token in tokens:
        if not isinstance(token, Fence):
            linked.append(token)
        elif token.kind is Kind.END:
            last = current.pop()
            last.otherwise = last.exit.position = len(linked)
        else:
            branch = Branch(token.conditions, Exit() if token.kind is Kind.IF else _leave(current.pop(), linked))
            current.append(branch)
            linked.append(branch)
    return linked


def _leave(branch: Branch, linked: list[Step]) -> Exit:
    """Ends a branch where the next one of its conditional begins; their common exit."""
    linked.append(branch.exit)
    branch.otherwise = len(linked)
    return branch.exit
