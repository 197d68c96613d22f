"""The list of places where something about people is held (docs/privacy.md#what-is-held-about-a-person).

In the order of erasing: first what is found only by what the later ones hold. Contacts and suppressions come last, so
that a run which was interrupted finds the person again. Each column of text of the database is marked with one of these
places or as impersonal (app/db/models/base.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from app.privacy.addressed import CONTACTS, SMALL_PLACES, SUPPRESSIONS
from app.privacy.recipients import RECIPIENTS
from app.privacy.searched import SEARCHED_PLACES

PLACES = (*SEARCHED_PLACES, *SMALL_PLACES, RECIPIENTS, CONTACTS, SUPPRESSIONS)


# What is removed of a person, in words. Pure.

SINGULARS = {
    **{"answers of receivers": "answer of a receiver", "counts of bounces": "count of bounces"},
    **{"parts of replies": "part of a reply", "contents of sends": "content of a send"},
    **{"messages not sent": "message not sent", "sends that named the address": "send that named the address"},
    "blind copies": "blind copy",
    "named in sends": "named in sends",
}
"""What is counted -> what one of it is called, where that is more than the letter at the end."""


def counted(counts: Mapping[str, int]) -> str:
    """The numbers with their nouns."""
    return ", ".join(_with_noun(count, name.replace("_", " ")) for name, count in counts.items())


def _with_noun(count: int, noun: str) -> str:
    return f"{count} {SINGULARS.get(noun, noun.removesuffix('s')) if count == 1 else noun}"
