"""What all transports have in common: the messages they take, the answers they give, and the two protocols."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

Message_contra = TypeVar("Message_contra", contravariant=True)


class TransportUrlError(ValueError):
    """A transport URL that cannot be used; the text is one line for the operator and holds no password."""


class Outcome(enum.Enum):
    """What became of one try (docs/transports.md#replies)."""

    ACCEPTED = "accepted"
    """The next system has taken the message over."""
    DEFERRED = "deferred"
    """Not now, or not known: trying again later is right."""
    UNCERTAIN = "uncertain"
    """The whole message was sent, and the answer never came: it may have arrived."""
    REFUSED = "refused"
    """Never: the other side will not take this message to this address."""


class DeliveryResult(NamedTuple):
    """The answer to one try. A tuple, like all that is made once per message: a frozen dataclass of as many fields
    takes four times as long to make.

    `reply` holds the other side's own words where it spoke (`550 5.1.1 no such user here`), else ours. Tenants read
    it: hosts, ports and paths stand in `note`, which is for the operator alone.
    `status` is an RFC 3463 code whose class agrees with the outcome (2, 4 or 5); None where the carrier has no such
    codes. Of a text message that was accepted, `gateway_id` is the gateway's own id, by which its receipts name it,
    and `segments` the number of parts; None where nobody tells.
    """

    outcome: Outcome
    reply: str = ""
    status: str | None = None
    gateway_id: str | None = None
    segments: int | None = None
    note: str | None = None

    @classmethod
    def accepted(
        cls,
        reply: str = "",
        status: str | None = None,
        *,
        gateway_id: str | None = None,
        segments: int | None = None,
        note: str | None = None,
    ) -> DeliveryResult:
        """The next system has taken the message over."""
        return cls(Outcome.ACCEPTED, reply, status, gateway_id, segments, note)

    @classmethod
    def deferred(cls, reply: str, status: str | None = None, *, note: str | None = None) -> DeliveryResult:
        """To be tried again later."""
        return cls(Outcome.DEFERRED, reply, status, note=note)

    @classmethod
    def uncertain(cls, reply: str, status: str | None = None) -> DeliveryResult:
        """May have arrived: to be looked into before it is tried again."""
        return cls(Outcome.UNCERTAIN, reply, status)

    @classmethod
    def refused(cls, reply: str, status: str | None = None) -> DeliveryResult:
        """Not to be tried again."""
        return cls(Outcome.REFUSED, reply, status)


class OutboundEmail(NamedTuple):
    """One mail to one address. A blind copy is a mail of its own, with `-bcc` behind the uuid.

    `content` is the full RFC 5322 message with CRLF line ends. An empty `envelope_from` is the null sender.
    """

    uuid: str
    envelope_from: str
    to: str
    content: bytes


@dataclass(frozen=True, slots=True)
class OutboundSms:
    """One text to one mobile number, both numbers without a leading plus.

    `receipt_url` is where a gateway that calls back may tell what became of it; it names this message alone.
    """

    uuid: str
    sender: str
    to: str
    text: str
    receipt_url: str = ""


class Connection(Protocol[Message_contra]):
    """A way to the carrier, for one thread at a time."""

    def send(self, message: Message_contra, /) -> DeliveryResult:
        """Hand one message over. Trouble on the way is a deferral; nothing is raised for it."""
        ...

    def close(self) -> None:
        """Give the way back. Sending again opens it anew."""
        ...


@runtime_checkable
class PipeliningConnection(Protocol):
    """A connection for mail over which the next message can be announced together with the end of one."""

    announces: Literal[True]

    def send(self, message: OutboundEmail, following: OutboundEmail | None = None, /) -> DeliveryResult:
        """The same; `following` is what will be sent next over this connection, where that is known."""
        ...


class Transport(Protocol[Message_contra]):
    """A description of the carrier that threads may share. Making one connects to nothing."""

    def connect(self) -> Connection[Message_contra]:
        """A connection that opens lazily, at its first message."""
        ...
