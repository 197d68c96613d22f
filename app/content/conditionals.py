"""Compiles the tokens of a body into a flat list of steps, with the jumps of its conditionals.

There is no tree and no recursion, so that ten thousand levels of nesting or unclosed markers cost no more than their
length. Unclosed and overlapping conditionals and misplaced branch markers become text again, exactly as written
(docs/personalisation.md#invalid-markup).
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from app.content.conditions import Condition
from app.content.wildcards import AttachmentReference, Marker, MarkerType, Token, Wildcard, tokenize


@dataclass(slots=True)
class Exit:
    """A jump to `position`, behind the conditional. All branches of a conditional share it."""

    position: int = 0


@dataclass(slots=True)
class Branch:
    """The start of a branch: jump to `otherwise` if its conditions do not hold. ELSE has no conditions."""

    conditions: tuple[Condition, ...]
    exit: Exit
    otherwise: int = 0


Step: TypeAlias = str | Wildcard | AttachmentReference | Branch | Exit

_OPENING = (MarkerType.IF, MarkerType.UNKNOWN)


def compile_steps(tokens: Iterable[Token]) -> list[Step]:
    """The steps to run for each recipient; consecutive texts are one step."""
    return _link_branches(_merge_text(placed(list(tokens))))


def placed(tokens: list[Token]) -> list[Token]:
    """The tokens, one for one, with the markers that have no effect turned into text."""
    return _drop_misplaced(_pair_markers(tokens))


def unconditional_text(source: str) -> str:
    """The text of a source that every recipient gets: outside of conditionals, with the fallbacks of wildcards. Markers
    become spaces, because their values are unknown here."""
    depth, text = 0, list[str]()
    for token in placed(list(tokenize(source))):
        if isinstance(token, Marker):
            depth += (token.type is MarkerType.IF) - (token.type is MarkerType.END)
            text.append(" ")
        elif depth == 0:
            text.append(_unconditional(token))
    return "".join(text)


def _unconditional(token: str | Wildcard | AttachmentReference) -> str:
    match token:
        case str():
            return token
        case Wildcard():
            return f" {token.fallback} "
        case AttachmentReference():
            return " "


def _pair_markers(tokens: list[Token]) -> list[Token]:
    """Turns unmatched opening markers and ENDs into text. An END closes the last opening marker with its key."""
    open_markers: list[tuple[int, str]] = []  # position and key
    keys: Counter[str] = Counter()  # open markers per key, so that a stray END costs no search
    paired: set[int] = set()
    for position, token in enumerate(tokens):
        if not isinstance(token, Marker):
            continue
        if token.type in _OPENING:
            open_markers.append((position, token.key))
            keys[token.key] += 1
        elif token.type is MarkerType.END and keys[token.key]:
            paired |= {position, _close_last(token.key, open_markers, keys)}
    return [
        token.source
        if isinstance(token, Marker) and token.type in (*_OPENING, MarkerType.END) and position not in paired
        else token
        for position, token in enumerate(tokens)
    ]


def _close_last(key: str, open_markers: list[tuple[int, str]], keys: Counter[str]) -> int:
    """Returns the position of the marker that an END closes, and drops the open ones inside it: they stay unclosed."""
    while True:
        position, opened = open_markers.pop()
        keys[opened] -= 1
        if opened == key:
            return position


def _drop_misplaced(tokens: list[Token]) -> list[Token]:
    """Turns misplaced ELSE and ELSEIF markers into text, and all markers of conditionals that cannot be parsed."""
    open_markers: list[Marker] = []  # the last marker of each open conditional
    kept: list[Token] = []
    for token in tokens:
        if not isinstance(token, Marker):
            kept.append(token)
        elif token.type in _OPENING:
            open_markers.append(token)
            kept.append(token if token.type is MarkerType.IF else token.source)
        elif token.type is MarkerType.END:
            kept.append(token.source if open_markers.pop().type is MarkerType.UNKNOWN else token)
        elif (
            open_markers
            and open_markers[-1].key == token.key
            and open_markers[-1].type in (MarkerType.IF, MarkerType.ELSEIF)
        ):
            open_markers[-1] = token
            kept.append(token)
        else:
            kept.append(token.source)
    return kept


def _merge_text(tokens: list[Token]) -> list[Token]:
    joined: list[Token] = []
    for is_text, run in groupby(tokens, key=lambda token: isinstance(token, str)):
        if is_text:
            joined.append("".join(text for text in run if isinstance(text, str)))
        else:
            joined.extend(run)
    return [token for token in joined if token != ""]


def _link_branches(tokens: list[Token]) -> list[Step]:
    """Replaces the markers, all of them valid by now, with steps and their jump targets."""
    linked: list[Step] = []
    current: list[Branch] = []  # the current branch of each open conditional
    for token in tokens:
        if not isinstance(token, Marker):
            linked.append(token)
        elif token.type is MarkerType.END:
            last = current.pop()
            last.otherwise = last.exit.position = len(linked)
        else:
            branch = Branch(
                token.conditions, Exit() if token.type is MarkerType.IF else _end_branch(current.pop(), linked)
            )
            current.append(branch)
            linked.append(branch)
    return linked


def _end_branch(branch: Branch, linked: list[Step]) -> Exit:
    """Ends a branch where the next one of its conditional begins; returns their common exit."""
    linked.append(branch.exit)
    branch.otherwise = len(linked)
    return branch.exit
