"""The interface of transports: the messages that they accept, the results that they return, and their protocols."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

Message_contra = TypeVar("Message_contra", contravariant=True)


class TransportUrlError(ValueError):
    """A transport URL that cannot be used; the text is one line for the operator and contains no password."""


class Outcome(enum.Enum):
    """Outcome of one delivery attempt (docs/transports.md#replies)."""

    ACCEPTED = "accepted"
    """The next system has taken over the message."""
    DEFERRED = "deferred"
    """A temporary failure, or an unknown one: to be retried later."""
    UNCERTAIN = "uncertain"
    """The whole message was sent, but there was no answer: it may have arrived."""
    REFUSED = "refused"
    """A permanent failure: the other side does not accept this message for this address."""


class Untaken(enum.Enum):
    """Why the other side certainly has not taken a message, so that the next transport of a route may send it."""

    TRANSPORT = "transport"
    """No message can be handed over now: no connection, a refused login, a server that is closing."""
    MESSAGE = "message"
    """This one was not accepted, others may be."""


class DeliveryResult(NamedTuple):
    """Result of one delivery attempt, as the transport reports it. A tuple, because there is one per message: a frozen
    dataclass of as many fields takes four times as long to make.

    `reply` is the text of the other side's reply (`550 5.1.1 no such user here`), or our own if there was none. Tenants
    read it, so hosts, ports and paths go into `note`, which only the operator sees. `status` is an RFC 3463 code whose
    class agrees with the outcome (2, 4 or 5); None if the gateway has no such codes. For an accepted text message,
    `gateway_id` is the gateway's own id, which its receipts refer to, and `segments` the number of parts; None if they
    are unknown. `untaken` allows another transport to send the message (docs/transports.md#failover); None unless it is
    certain that the other side has taken nothing of it. `about_sender` is whether a refusal came before the other side
    knew the recipient, so that it cannot be about the address.
    """

    outcome: Outcome
    reply: str = ""
    status: str | None = None
    gateway_id: str | None = None
    segments: int | None = None
    note: str | None = None
    untaken: Untaken | None = None
    about_sender: bool = False

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
        """The next system has taken over the message."""
        return cls(Outcome.ACCEPTED, reply, status, gateway_id, segments, note)

    @classmethod
    def deferred(
        cls, reply: str, status: str | None = None, *, note: str | None = None, untaken: Untaken | None = None
    ) -> DeliveryResult:
        """To be retried later."""
        return cls(Outcome.DEFERRED, reply, status, note=note, untaken=untaken)

    @classmethod
    def uncertain(cls, reply: str, status: str | None = None) -> DeliveryResult:
        """May have arrived: to be resolved before it is retried."""
        return cls(Outcome.UNCERTAIN, reply, status)

    @classmethod
    def refused(
        cls, reply: str, status: str | None = None, *, untaken: Untaken | None = None, about_sender: bool = False
    ) -> DeliveryResult:
        """Not to be retried."""
        return cls(Outcome.REFUSED, reply, status, untaken=untaken, about_sender=about_sender)


class OutboundEmail(NamedTuple):
    """One mail to one address. A blind copy is a separate mail, with `-bcc` after the uuid.

    `content` is the full RFC 5322 message with CRLF line ends. An empty `envelope_from` is the null sender.
    """

    uuid: str
    envelope_from: str
    to: str
    content: bytes


@dataclass(frozen=True, slots=True)
class OutboundSms:
    """One text to one mobile number, both numbers without a leading plus.

    `receipt_url` is where a gateway with HTTP callbacks reports the receipt of this message.
    """

    uuid: str
    sender: str
    to: str
    text: str
    receipt_url: str = ""


class Connection(Protocol[Message_contra]):
    """A connection to the relay or gateway, for one thread at a time."""

    def send(self, message: Message_contra, /) -> DeliveryResult:
        """Sends one message. A network failure is a deferral; nothing is raised for it."""
        ...

    def close(self) -> None:
        """Closes the connection. Sending again reopens it."""
        ...


def wait_only() -> None:
    """What is done while an answer is awaited: nothing else."""


@runtime_checkable
class PipeliningConnection(Protocol):
    """A mail connection that can pipeline: the commands of the next message are sent with the end of one."""

    pipelines: Literal[True]

    def send(
        self,
        message: OutboundEmail,
        following: OutboundEmail | None = None,
        while_waiting: Callable[[], None] = wait_only,
        /,
    ) -> DeliveryResult:
        """Sends one message; `following` is the one that is sent next over this connection, if it is known.

        `while_waiting` raises nothing and may be called once the message is sent, before its answer is read.
        """
        ...


class Transport(Protocol[Message_contra]):
    """A description of the relay or gateway that threads may share. Creating one opens no connection."""

    def connect(self) -> Connection[Message_contra]:
        """A connection, which is opened by its first message."""
        ...
