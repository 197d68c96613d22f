"""One round: the service under load, a fault at a random moment, and a check of the guarantees afterwards."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from app.db.engine import BUSY_TIMEOUT_MS
from tests.chaos.check import Result, check
from tests.chaos.facts import facts, in_hand, left_behind
from tests.chaos.limits import Limits
from tests.chaos.load import Load
from tests.chaos.promises import AFTERWARDS, ENDED, FAILED_ROUND
from tests.chaos.record import Course, read_deliveries, read_mails
from tests.chaos.registry import Fault
from tests.chaos.stage import START_WITHIN, Stage, stage
from tests.support.postgres_process import PostgresProcess
from tests.support.servers import PATIENCE, wait_until

BEFORE = (2.0, 5.0)
"""Seconds of load before the fault; a random time, so that the fault meets a random state."""
AFTER = 7.0
"""Seconds of load after the fault."""
LOCK_PATIENCE = BUSY_TIMEOUT_MS / 1000 + 4
"""Seconds until a response on SQLite, where a suspended process or a busy machine may hold the lock for long."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a round. `postgres` is None for SQLite, `broken` a build of broken/breaks.py, `keep` a folder
    for the logs of failed rounds. A `short` round looks for what is lost, doubled or stuck, whatever the times: several
    run at once, and the machine may be slow."""

    fault: Fault
    postgres: PostgresProcess | None
    seed: int
    broken: str | None = None
    keep: Path | None = None
    short: bool = False

    @property
    def database(self) -> str:
        return "postgresql" if self.postgres else "sqlite"

    @property
    def hooks(self) -> list[str]:
        """The names of all hooks in the service."""
        return [name for name in (self.broken, *self.fault.hook.split(",")) if name]

    @property
    def limits(self) -> Limits:
        """The limits of the fault on this database."""
        limits = self.fault.limits
        if self.short:
            return limits.whatever_the_times()
        return limits if self.postgres else replace(limits, answering=LOCK_PATIENCE)


def run(plan: Plan) -> Result:
    """Runs the round; returns its row."""
    chance = random.Random(f"{plan.seed} {plan.fault.name} {plan.database}")
    with stage(plan.postgres, plan.fault.settings, plan.seed, plan.fault.setup, plan.hooks) as on:
        try:
            fault = replace(plan.fault, rest=PATIENCE) if plan.short else plan.fault
            result = carry_out(fault, plan.limits, on, chance)
        except AssertionError as error:
            result = Result()
            result.note(FAILED_ROUND, str(error))
        if result.broken and plan.keep:
            _keep(on, plan.keep / f"{plan.fault.name}-{plan.database}-{plan.seed}")
        return result


def carry_out(fault: Fault, limits: Limits, on: Stage, chance: random.Random) -> Result:
    """Starts the service, puts it under load, strikes, and checks what was seen and what is left."""
    if fault.is_first:
        fault.strike(on, chance)
    on.start()
    load = Load(on, chance, fault.slowly, with_automations=fault.with_automations)
    with load.running():
        wait_until(on.is_in_motion, "the first messages and events have gone out", START_WITHIN)
        time.sleep(chance.uniform(*BEFORE))
        load.pile_up(fault.backlog, chance)
        struck = time.time()
        started = None if fault.is_first else fault.strike(on, chance)
        up = time.time()
        ended = started or up
        time.sleep(AFTER)
        _wait(lambda: load.is_accepted_since(ended), limits.accepting)
        ending = on.revive()
        load_ended = time.time()
        load.stop()
    if fault.at_end:
        fault.at_end(on)
    # Between the two readings of one look, a text in hand may leave, whose receipt is still to come.
    is_at_rest = _wait(lambda: not _unfinished(on) and not _unfinished(on), fault.rest)
    restless = [] if is_at_rest else [f"after {fault.rest:g} s: {trouble}" for trouble in _unfinished(on)]
    load.seen.mails = read_mails(on.folder / "relay.log")
    load.seen.texts = read_mails(on.folder / "gateway.log")
    load.seen.deliveries = read_deliveries(on.folder / "receiver.log")
    groups_in_api = on.shown_groups()  # before anything else, which may end the validity of keys
    complaints = [*on.complaints, *(fault.afterwards(on, load.seen) if fault.afterwards else [])]
    course = Course(struck, ended, up, load_ended, on.kills)
    result = check(load.seen, facts(on.services, groups_in_api), course, limits)
    for name, examples in ((ENDED, ending), ("not at rest", restless), (AFTERWARDS, complaints)):
        result.complain(name, examples)
    return result


def _unfinished(on: Stage) -> list[object]:
    """What is still to be done, or was left undone by somebody who is dead."""
    waiting = on.texts("taken") - on.texts("confirmed")
    receipts = [f"{waiting} receipts not confirmed"] if waiting > 0 else []
    return [*in_hand(on.services).items(), *left_behind(on.services), *receipts]


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    """Waits until the condition holds; returns whether it did in that time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.25)
    return True


def _keep(on: Stage, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    logs_of_peers = (f"{peer}.{kind}" for peer in ("relay", "gateway", "receiver") for kind in ("log", "output"))
    for name in ("log", *logs_of_peers):
        if (on.folder / name).exists():
            shutil.copy(on.folder / name, folder / name)
