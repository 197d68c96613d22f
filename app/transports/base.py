"""The interface of transports: the messages that they accept, the results that they return, their protocols, and
whether one is used now or backed off."""

from __future__ import annotations

import enum
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

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
    """This message was not accepted; others may be."""


class DeliveryResult(NamedTuple):
    """Result of one delivery attempt, as the transport reports it. A tuple, because there is one per message: a frozen
    dataclass of as many fields takes four times as long to make.

    `reply` is the text of the other side's reply (`550 5.1.1 no such user here`), or our own if there was none. Tenants
    read it, so hosts, ports and paths go into `note`, which only the operator sees. `status` is an RFC 3463 code whose
    class agrees with the outcome (2, 4 or 5); None if the gateway has no such codes. For an accepted text message,
    `gateway_id` is the gateway's own id, which its receipts refer to, and `segments` the number of parts; None if they
    are unknown. `untaken` allows another transport to send the message (docs/routes.md#failover); None unless it is
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
        """The result of an attempt whose message the next system has taken over."""
        return cls(Outcome.ACCEPTED, reply, status, gateway_id, segments, note)

    @classmethod
    def deferred(
        cls, reply: str, status: str | None = None, *, note: str | None = None, untaken: Untaken | None = None
    ) -> DeliveryResult:
        """The result of an attempt that is repeated later."""
        return cls(Outcome.DEFERRED, reply, status, note=note, untaken=untaken)

    @classmethod
    def uncertain(cls, reply: str, status: str | None = None) -> DeliveryResult:
        """The result of an attempt whose message may have arrived: that is resolved before another attempt."""
        return cls(Outcome.UNCERTAIN, reply, status)

    @classmethod
    def refused(
        cls, reply: str, status: str | None = None, *, untaken: Untaken | None = None, about_sender: bool = False
    ) -> DeliveryResult:
        """The result of an attempt that must not be repeated."""
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


class SharedConnection:
    """A transport and its connection in one, which all threads share: there is nothing to open or close for one of
    them."""

    __slots__ = ()

    def connect(self) -> Self:
        """The transport itself."""
        return self

    def close(self) -> None:
        """Does nothing."""


@runtime_checkable
class BindingTransport(Protocol):
    """A transport that keeps a bind to its gateway in each process. All processes together may have `binds` of them;
    None is no limit."""

    binds: int | None

    def bind_while(self, is_allowed: Callable[[], bool]) -> None:
        """Keeps the bind only while this process may have one."""
        ...


logger = logging.getLogger(__name__)

FIRST_BACKOFF = 5.0
MAX_BACKOFF = 300.0


class Availability:
    """Whether a relay, or a transport of a route, is used now by this process: it is backed off while no message can be
    handed to it. Threads share it; `name` is for the log.

    Connections that share it report how each message went. When a back-off ends, one message probes while the others
    still go elsewhere: a destination that drops packets delays only one connection. If the probe fails, the back-off
    doubles, up to five minutes; a destination that answers is available again.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.backoff_until = 0.0
        self._name = name
        self._backoff = FIRST_BACKOFF
        self._probing = False
        self._clock = clock
        self._lock = threading.Lock()

    @property
    def is_backed_off(self) -> bool:
        """Whether messages go elsewhere now; False also when a back-off has ended, so that one may probe."""
        with self._lock:
            return not self._may_begin()

    def begin(self) -> bool:
        """Whether a message may be sent there: the destination is available, or this message is the probe. The caller
        reports how it went."""
        with self._lock:
            if not self._may_begin():
                return False
            self._probing = self._backoff != FIRST_BACKOFF
            return True

    def report(self, *, reached: bool) -> bool:
        """Records whether a message could be handed over. Several connections that fail together count once. Returns
        whether this began a back-off."""
        with self._lock:
            self._probing = False
            if reached:
                self._backoff, self.backoff_until = FIRST_BACKOFF, 0.0
                return False
            if self._clock() < self.backoff_until:
                return False
            self.backoff_until = self._clock() + self._backoff
            logger.warning("%s is backed off for %s s", self._name, self._backoff)
            self._backoff = min(self._backoff * 2, MAX_BACKOFF)
            return True

    def cancel(self) -> None:
        """Ends a probe that was not sent after all."""
        with self._lock:
            self._probing = False

    def _may_begin(self) -> bool:
        """Whether an attempt may begin. The caller holds the lock."""
        return self._backoff == FIRST_BACKOFF or not (self._probing or self._clock() < self.backoff_until)
