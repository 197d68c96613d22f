"""Environment variables that look like settings of ours and are none: nobody reads `EMAIL_TRANSPORT`, so mail would go
to the folder while everything looks well.

One looks like ours when it is a setting's name but for case and underscores; when its words are, in this order, words
of one setting, all or some of them, each possibly misspelt; or when it begins with a word that stands for what only we
set.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import fields

from app.settings import Settings

NOT_OF_SETTINGS = ("RECEIVER_PORT", "RECEIVER_SECRET")
"""Read by the launcher and the demo's receiver."""
KNOWN = frozenset(one.metadata["variable"] for one in fields(Settings)).union(NOT_OF_SETTINGS)

OURS = {
    "TMS": "",
    "EMAIL": "",
    "SMS": "",
    "INBOUND": "",
    "WEBHOOK": "",
    "SMTP": "EMAIL_TRANSPORT_URL",
    "SMPP": "SMS_TRANSPORT_URL",
    "KANNEL": "SMS_TRANSPORT_URL",
}
"""First words -> the setting that was probably meant, where it is not the nearest by its letters."""
ALIKE, SAME_START = 0.85, 0.6
"""How much of two words must agree; less is enough for words that begin with the same letter."""
SHORTEST_START = 3
"""Characters of a word that is cut short, as in DIRECTORY and DIR."""
LONGEST = 60
"""Characters; no setting's name has half as many."""


def misspelt(environ: Mapping[str, str]) -> dict[str, str]:
    """Variable -> the setting that it is nearest to, for those that look like ours and are not. An empty one sets
    nothing, whatever it was meant for."""
    candidates = (
        name for name, value in environ.items() if name not in KNOWN and value.strip() and len(name) < LONGEST
    )
    return {name: meant for name in sorted(candidates) if (meant := _meant(name))}


def _meant(name: str) -> str | None:
    words = _words(name)
    joined = "".join(words)
    likely = [known for known in KNOWN if joined == known.replace("_", "") or _reads_as(words, known.split("_"))]
    if likely:
        return _nearest(name, likely)
    first = words[0] if len(words) > 1 else ""
    return (OURS[first] or _nearest(name, KNOWN)) if first in OURS else None


def _words(name: str) -> list[str]:
    return [word for word in name.upper().replace("-", "_").split("_") if word] or [""]


def _reads_as(words: list[str], wanted: list[str]) -> bool:
    """Two words or more, each like one of the setting's, in its order."""
    rest = iter(wanted)
    return len(words) > 1 and all(any(_alike(word, one) for one in rest) for word in words)


def _alike(word: str, wanted: str) -> bool:
    shorter, longer = sorted((word, wanted), key=len)
    if longer.startswith(shorter) and len(shorter) >= SHORTEST_START:
        return True
    needed = SAME_START if word[0] == wanted[0] else ALIKE
    return difflib.SequenceMatcher(None, word, wanted).ratio() >= needed


def _nearest(name: str, among: Iterable[str]) -> str:
    return difflib.get_close_matches(name.upper(), sorted(among), 1, 0.0)[0]
