"""The interface of relay hooks: the request that they read, the events that they return, and their protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from app.inbound.email.report import Report


class HookRefused(Exception):
    """A request that is not proven to come from the relay; the text is for the log."""


class HookBusy(Exception):
    """Whether the request is genuine cannot be checked now: the relay must send it again. The text is for the log."""


@dataclass(frozen=True, slots=True)
class HookRequest:
    """A request of a relay. `secret` is the last segment of the path, empty if there is none; the names of `headers`
    are in lower case."""

    secret: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    parse: Callable[[bytes], Any] = field(repr=False)
    """Parses JSON with a limit of its values; raises `ServiceError`."""

    def document(self) -> Any:
        """The body as JSON. Raises `ServiceError` (`invalid_request`)."""
        return self.parse(self.body)


class RelayEvent(NamedTuple):
    """What an event says of one mail, which is named by its uuid or by its return path.

    Copies of an event have the same `fingerprint`. A relay that does not sign the whole request signs a one-time
    `token`, which is accepted with one event only.
    """

    report: Report
    fingerprint: str
    uuid: str | None = None
    return_path: str = ""
    token: str = ""


class RelayHook(Protocol):
    """The hook of one relay. Threads share it."""

    success: int
    """The status by which the relay knows that its events have been recorded."""

    def read(self, request: HookRequest, /) -> Sequence[RelayEvent]:
        """The events of a genuine request, of which those that report nothing of interest are left out.

        Raises `HookRefused`, `HookBusy` and `ServiceError` (`invalid_request`).
        """
        ...
