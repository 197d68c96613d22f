"""What was seen from outside: by the clients, by the relay, by the gateway and by the receiver of the webhooks.

These append a line to a file at each step, before they answer, so that their records outlive them. Times are seconds
of the system clock, which all processes of the machine share.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

MailStep = Literal["taken", "refused", "deferred", "confirmed", "quit", "lost", "cut"]
"""`taken` means that the relay or the gateway has the message, whether or not its answer reached the sender, and
`confirmed` that the service has taken the receipt of a text. A connection ends with `quit`, with `lost` if the service
ended it without QUIT or UNBIND, or with `cut` if the relay or the gateway did."""

SUBJECT = "A subject"
"""The subject of all mails except those of automations. It also stands for the subject that texts do not have."""
LONG = " and of all the words that make a text long" * 4 + " until its end."
"""Follows the first sentence of a text that takes two parts."""
WEBHOOK_SPACING = 1.0
"""Seconds between the beginnings of two requests to a webhook, which the service is told."""
LISTEN = os.environ.get("CHAOS_LISTEN", "127.0.0.1")
"""The address at which relay, gateway and receiver listen."""
ContactEvent = Literal["created", "updated", "deleted"]


@dataclass(frozen=True, slots=True)
class Mail:
    """One step of a connection to the relay or the gateway. `whole`: the message was complete, and the one for its
    recipient. `subject` and `attached`, the digest of the attachments, are known of mails that were taken."""

    time: float
    connection: str
    step: MailStep
    to: str = ""
    whole: bool = True
    subject: str = SUBJECT
    attached: str = ""
    link: str = ""
    """The link for unsubscribing, of a mail that was taken."""
    began: float = 0.0
    """When its first command or its PDU was read, of messages that were taken."""
    answered: bool = True
    """Whether the sender was told that it was taken."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One request to a webhook. `status` is None if it was not answered."""

    time: float
    account: str
    jti: str
    signed: bool
    events: list[dict[str, Any]]
    status: int | None
    began: float = 0.0
    """When the receiver began to read it."""
    overlaps: bool = False
    """Another request to the same webhook was still in progress."""


@dataclass(slots=True)
class Request:
    """One request of a client. `status` is None when the connection was cut or refused, or nothing came in time."""

    account: str
    kind: str
    began: float
    ended: float = 0.0
    status: int | None = None
    retry_after: str | None = None
    trouble: str = ""
    silent: bool = False
    """There was no response for so long that the client gave up."""
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    """A request that was tried once: whatever the response, all of its `marks` are there or none."""

    kind: Literal["send", "contacts"]
    account: str
    status: int | None
    marks: tuple[str, ...]
    """The addresses of what it writes."""


@dataclass(slots=True)
class RoundRecord:
    """Everything that a round has recorded."""

    requests: list[Request] = field(default_factory=list)
    accepted: dict[str, str] = field(default_factory=dict)
    """Address -> uuid of each recipient of an answered 202."""
    answered: dict[str, float] = field(default_factory=dict)
    """Address -> the moment of that answer."""
    never_answered: list[str] = field(default_factory=list)
    """Idempotency keys of requests that were repeated in vain."""
    chains: dict[str, list[tuple[int, ContactEvent]]] = field(default_factory=dict)
    """Account -> changes of contacts, each made after the one before was answered: they have an order."""
    values: dict[tuple[str, str], str] = field(default_factory=dict)
    """Account and address of each contact whose last change was answered -> the first name that it wrote."""
    tried_once: list[Whole] = field(default_factory=list)
    attached: dict[str, str] = field(default_factory=dict)
    """Address -> digest of the attachments, of each mail of an answered 202 that has some."""
    mails: list[Mail] = field(default_factory=list)
    texts: list[Mail] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    entered: list[tuple[str, str]] = field(default_factory=list)
    """Account and address of each contact that was created in the list of an automation."""
    forgotten: set[str] = field(default_factory=set)
    """The addresses of people who were forgotten."""


@dataclass(frozen=True, slots=True)
class Course:
    """The moments of a round."""

    struck: float
    """The fault began."""
    ended: float
    """The fault was over: the last process was killed, or the service was started again."""
    up: float
    """All processes ran again, if some had to be started; else the same moment."""
    load_ended: float
    kills: Sequence[float] = ()
    """When processes of the service were killed or suspended."""


class Log:
    """A file of lines that several threads append to; each line is written at once."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, **facts: Any) -> None:
        """Appends one line, with the time."""
        os.write(self._descriptor, json.dumps({"time": time.time(), **facts}).encode() + b"\n")


def is_text(address: str) -> bool:
    """Whether the address is a mobile number, so that the message is a text."""
    return address.isdigit()


def words_for(address: str) -> str:
    """The words that the message to this address has, and no other one."""
    return f"This is for {address.partition('@')[0]}."


def is_whole_text(text: str, mobile: str) -> bool:
    """Whether these are all words of a text for that number."""
    return text in (words_for(mobile), words_for(mobile) + LONG)


def digest(contents: Iterable[bytes]) -> str:
    """The digest of the attachments of a mail, in any order; empty if there are none."""
    each = sorted(hashlib.sha256(content).hexdigest() for content in contents)
    return hashlib.sha256(" ".join(each).encode()).hexdigest() if each else ""


def read_mails(path: Path) -> list[Mail]:
    """What the relay or the gateway has recorded."""
    return [Mail(**line) for line in _lines(path)]


def read_deliveries(path: Path) -> list[Delivery]:
    """What the receiver has recorded."""
    return [Delivery(**line) for line in _lines(path)]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        # The last line may be incomplete.
        for line in path.read_bytes().split(b"\n")[:-1]:
            yield json.loads(line)


def say_mode(path: Path, mode: str) -> None:
    """Sets how a peer behaves from now on."""
    draft = path.with_suffix(".new")
    draft.write_text(mode)
    draft.rename(path)


def mode_of(path: Path) -> str:
    """How a peer must behave now."""
    return path.read_text() if path.exists() else "take"
