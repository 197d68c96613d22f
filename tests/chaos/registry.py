"""What a fault is, and the registry of all of them by their names."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.chaos.limits import Limits
from tests.chaos.promises import Promise
from tests.chaos.record import RoundRecord
from tests.chaos.stage import Setup, Stage

Strike = Callable[[Stage, random.Random], float | None]
"""Returns, once all processes run, the moment at which they were killed or the service was started again."""

Afterwards = Callable[[Stage, RoundRecord], list[str]]
"""Returns the complaints."""

PROCESSES = {
    "sender": r"jobs\.worker sends",
    "worker": r"jobs\.worker",
    "automations": r"jobs\.worker automations",
    "maintenance": r"jobs\.worker webhooks",
    "scheduler": r"jobs\.schedule",
    "gunicorn": r"gunicorn",
    "launcher": r"app\.launcher\s*$",
    "redis": r"redis-server",
}
"""Name -> the pattern of its command line."""
RESTART = 40.0
"""Seconds until a restarted service is at work: processes left by a killed launcher have eight to end, and a busy
machine takes several to start a process."""
RETRIED = 13.0
"""Seconds after its first failure within which a batch is repeated (docs/webhooks.md)."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault."""

    name: str
    strike: Strike
    tries: Sequence[Promise]
    """The promises that it tries to break; all others are checked, too."""
    limits: Limits
    only: str = ""
    """`sqlite` or `postgresql`, if it concerns only one of them."""
    slowly: float = 1.0
    """The factor by which clients are slower; long faults need no more messages than short ones."""
    backlog: int = 0
    """How many people each account sends to, just before it happens."""
    rest: float = 60.0
    """Seconds after the load within which all work is done."""
    is_first: bool = False
    """Whether it happens before the service has ever run."""
    setup: Setup = Setup()
    with_automations: bool = False
    """Whether contacts enter automations."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the service besides the usual ones."""
    hook: str = ""
    """The names of hooks (hooks.py) in all processes of the service, with commas between them."""
    at_end: Callable[[Stage], None] | None = None
    """What happens when the load has ended, so that all work can be done."""
    afterwards: Afterwards | None = None
    """What is to be checked besides the guarantees, when all work is done."""


FAULTS: dict[str, Fault] = {}
USUAL = Limits()


def fault(name: str, *tries: Promise, limits: Limits = USUAL, **options: object) -> Callable[[Strike], Strike]:
    """Registers a function under its name in the suite, with the promises that it tries to break."""

    def add(strike: Strike) -> Strike:
        FAULTS[name] = Fault(name, strike, tries, limits, **options)  # type: ignore[arg-type]
        return strike

    return add


IN_FLIGHT = Limits(doubles_in_flight=True, sending=RESTART)
CUT = Limits(cuts_requests=True)
STARTED_AGAIN = Limits(doubles_in_flight=True, cuts_requests=True, accepting=RESTART, sending=RESTART)


@contextmanager
def stopped(stage: Stage, *pids: int) -> Iterator[None]:
    """The processes are suspended inside the block."""
    stage.signal(signal.SIGSTOP, *pids)
    try:
        yield
    finally:
        stage.signal(signal.SIGCONT, *pids)


def start_again(stage: Stage) -> float:
    stage.service.process.wait()
    began = time.time()
    stage.start_service()
    stage.await_workers()
    return began


def run_again(stage: Stage) -> float:
    """The launcher restarts what was killed; on a busy machine that takes a while."""
    killed = time.time()
    stage.await_workers()
    return killed
