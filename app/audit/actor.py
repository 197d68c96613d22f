"""Who acts, and from where (docs/audit.md#actors)."""

from __future__ import annotations

import os
import pwd
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, get_args

ActorKind = Literal["key", "command", "service", "person"]
ACTOR_KINDS: tuple[ActorKind, ...] = get_args(ActorKind)
MAX_NAME_LENGTH = 100


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts: a key, a user of the command line, the service itself, or a person who has signed in by OpenID Connect.

    `source` is the client's address or the host, `via` the command, or method and route. All that one command or
    request does has one `request_id`.
    """

    kind: ActorKind
    name: str
    source: str | None = None
    via: str | None = None
    request_id: str | None = None
    key_id: int | None = None


def name_of_person(person_id: int) -> str:
    """What entries call somebody who has signed in by OpenID Connect: a number, which tells nothing once the person is
    forgotten."""
    return f"person {person_id}"


def service_actor() -> Actor:
    """The service itself: a worker, the scheduler, a start."""
    return Actor("service", "service", source=socket.gethostname())


def command_actor(command: str, environ: Mapping[str, str] = os.environ) -> Actor:
    """The user who runs a command; behind `sudo`, with the one who did."""
    user, invoker = _user(), environ.get("SUDO_USER", "")
    name = f"{user} ({invoker})" if invoker and invoker != user and invoker.isprintable() else user
    return Actor(
        "command", name[:MAX_NAME_LENGTH], source=socket.gethostname(), via=command, request_id=uuid.uuid4().hex
    )


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


_acting: ContextVar[Callable[[], Actor]] = ContextVar("acting", default=service_actor)


def act_as(actor: Callable[[], Actor]) -> None:
    """Says who acts in this context from now on; the function is called only if there is something to record."""
    _acting.set(actor)


@contextmanager
def acting(actor: Actor) -> Iterator[None]:
    """Says who acts inside the block."""
    token = _acting.set(lambda: actor)
    try:
        yield
    finally:
        _acting.reset(token)


def current_actor() -> Actor:
    """Who acts in this context."""
    return _acting.get()()
