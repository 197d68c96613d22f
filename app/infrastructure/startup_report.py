"""Log lines at the start of a process: its database and transports, and environment variables that are ignored."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import lru_cache

from app.db.engine import without_credentials
from app.infrastructure import liveness
from app.settings import Settings, in_file, variable_of
from app.transports.email import relay_urls
from app.transports.urls import display_url

logger = logging.getLogger(__name__)


# Environment variables that look like misspelt settings: `EMAIL_TRANSPORT` is ignored, so mail would go to the folder
# while everything seems to work.
#
# A variable looks like a setting when it has a setting's name except for case and underscores; when its words are, in
# order, some or all words of one setting, each possibly misspelt; or when it begins with a word that only this
# service's settings begin with.

NOT_OF_SETTINGS = ("RECEIVER_PORT", "RECEIVER_SECRET", "TMS_CHECK_START", "TMS_COMMAND", "TMS_WEB_WORKERS")
"""Read by the launcher and the demo's receiver, and by processes that are replaced by newer code."""
KNOWN = frozenset(variable_of(setting) for setting in fields(Settings)).union(NOT_OF_SETTINGS)
FORMER = frozenset(setting.metadata["former"][0] for setting in fields(Settings) if setting.metadata["former"])
"""Names of earlier releases, which are still read."""
FILES = frozenset(in_file(variable_of(setting)) for setting in fields(Settings) if setting.metadata["secret"])
"""Variables that name a file with the value of a setting."""

FIRST_WORDS = {
    "TMS": "",
    "EMAIL": "",
    "SMS": "",
    "INBOUND": "",
    "SUBMISSION": "",
    "WEBHOOK": "",
    "SMTP": "EMAIL_TRANSPORT_URL",
    "SMPP": "SMS_TRANSPORT_URL",
    "KANNEL": "SMS_TRANSPORT_URL",
}
"""First word -> the setting that was probably meant, if it is not the most similar one."""
SIMILARITY, SIMILARITY_OF_SAME_INITIAL = 0.85, 0.6
"""Least similarity of two words; lower for words with the same first letter."""
MIN_PREFIX = 3
"""Characters of an abbreviated word, as DIR for DIRECTORY."""
MAX_LENGTH = 60
"""Characters; twice the length of any setting."""


def misspelt(environ: Mapping[str, str]) -> dict[str, str]:
    """Variable -> the most similar setting, for variables that look like misspelt settings. Empty ones do not count."""
    candidates = (
        name
        for name, value in environ.items()
        if name not in KNOWN | FORMER | FILES and value.strip() and len(name) < MAX_LENGTH
    )
    return {name: intended for name in sorted(candidates) if (intended := _intended(name))}


@lru_cache(maxsize=1000)
def _intended(name: str) -> str | None:
    """Most variables are the same whenever a process asks."""
    words = _words(name)
    joined = "".join(words)
    likely = [name for name in KNOWN if joined == name.replace("_", "") or _reads_as(words, name.split("_"))]
    if likely:
        return _nearest(name, likely)
    first = words[0] if len(words) > 1 else ""
    return (FIRST_WORDS[first] or _nearest(name, KNOWN)) if first in FIRST_WORDS else None


def _words(name: str) -> list[str]:
    return [word for word in name.upper().replace("-", "_").split("_") if word] or [""]


def _reads_as(words: list[str], name_parts: list[str]) -> bool:
    """Two words or more, each similar to one of the setting's, in its order."""
    rest = iter(name_parts)
    return len(words) > 1 and all(any(_similar(word, name_part) for name_part in rest) for word in words)


@lru_cache(maxsize=10_000)
def _similar(word: str, name_part: str) -> bool:
    """Every process does this at its start, for all words of its environment: upper bounds are checked first."""
    shorter, longer = sorted((word, name_part), key=len)
    if longer.startswith(shorter) and len(shorter) >= MIN_PREFIX:
        return True
    needed = SIMILARITY_OF_SAME_INITIAL if word[0] == name_part[0] else SIMILARITY
    if 2.0 * len(shorter) / (len(word) + len(name_part)) < needed:
        return False
    matcher = difflib.SequenceMatcher(None, word, name_part)
    return matcher.quick_ratio() >= needed and matcher.ratio() >= needed


def _nearest(name: str, settings: Iterable[str]) -> str:
    return difflib.get_close_matches(name.upper(), sorted(settings), 1, 0.0)[0]


def log_startup(settings: Settings, *, role: str = "") -> None:
    """Logs one line with database and transports, and one for each variable that looks like a misspelt setting. `role`
    is that of a process that can be replaced in place."""
    database = without_credentials(settings.database_url)
    liveness.register(settings.data_dir, database, role)
    logger.info(
        "using the database %s, sending mail to %s and texts to %s",
        database,
        email_destination(settings),
        display_url(settings.sms_transport_url),
    )
    if settings.database_read_url:
        logger.info("reading reports from %s", without_credentials(settings.database_read_url))
    for line in ignored_variables():
        logger.warning(line)


def email_destination(settings: Settings) -> str:
    """The folder, the relay, or the relays in their order."""
    return ", else to ".join(map(display_url, relay_urls(settings.email_transport_url)))


def ignored_variables() -> Iterable[str]:
    """A line for each environment variable that looks like a misspelt setting."""
    return [
        f"{name} is not a setting of this service and is ignored; did you mean {meant}?"
        for name, meant in misspelt(os.environ).items()
    ]
