"""Faults of processes and of the other sides. A fault is over when its function returns."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import suppress

from app.sends.delivery.claim import LEASE
from tests.chaos.limits import Limits
from tests.chaos.promises import Promise
from tests.chaos.record import say_mode
from tests.chaos.registry import (
    CUT,
    IN_FLIGHT,
    PROCESSES,
    RETRIED,
    STARTED_AGAIN,
    Strike,
    fault,
    run_again,
    start_again,
    stopped,
)
from tests.chaos.stage import Stage
from tests.support.servers import wait_until

# ------------------------------------------------------------------------------------------ processes


@fault("calm", Promise.LOST, Promise.COUNTERS, Promise.EVENT)
def calm(_stage: Stage, _chance: random.Random) -> None:
    """Nothing happens: what breaks here is always broken."""
    time.sleep(2)


@fault("kill-sender", Promise.MAIL_TWICE, Promise.TEXT_TWICE, limits=IN_FLIGHT)
def kill_sender(stage: Stage, chance: random.Random) -> float:
    """Kills one of the senders while they send, five times in a row."""
    for _ in range(5):
        stage.await_mail()
        time.sleep(chance.uniform(0, 0.5))
        wait_until(lambda: stage.pids(PROCESSES["sender"]), "a sender runs")
        stage.kill(chance.choice(stage.pids(PROCESSES["sender"])))
    return run_again(stage)


@fault("kill-workers", Promise.LOST, Promise.EVENT, Promise.SPACING, limits=IN_FLIGHT)
def kill_workers(stage: Stage, _chance: random.Random) -> float:
    """Kills all senders and the webhook worker at once."""
    stage.kill(*stage.pids(PROCESSES["worker"]))
    return run_again(stage)


@fault("kill-automations", Promise.AUTOMATION, slowly=4.0, rest=150.0, with_automations=True)
def kill_automations(stage: Stage, chance: random.Random) -> float:
    """Kills the worker of automations while runs go on: three times at their first steps, and three times after their
    waits. The pause before it is started again doubles each time."""
    for step in ("hello", "hello", "arrived", "a minute", "last", "mark"):
        before = stage.passed(step)
        with suppress(AssertionError):  # the checker finds runs that stand still
            wait_until(lambda step=step, before=before: stage.passed(step) > before, "runs go on", 90)
        time.sleep(chance.uniform(0, 0.1))
        stage.kill(*stage.pids(PROCESSES["automations"]))
    return run_again(stage)


@fault("kill-scheduler", Promise.STALL)
def kill_scheduler(stage: Stage, _chance: random.Random) -> float:
    stage.kill(*stage.pids(PROCESSES["scheduler"]))
    return run_again(stage)


@fault("kill-api-process", Promise.WORK, Promise.CONFLICT, limits=CUT)
def kill_api_process(stage: Stage, chance: random.Random) -> None:
    """Kills a process of the API that answers requests, three times."""
    for _ in range(3):
        stage.kill(chance.choice(_api(stage)[1:]))
        time.sleep(chance.uniform(0.5, 1.5))


@fault("kill-api-master", Promise.WORK, Promise.RESUMING, limits=CUT)
def kill_api_master(stage: Stage, _chance: random.Random) -> None:
    """Kills the process that keeps those of the API running."""
    stage.kill(_api(stage)[0])


def _api(stage: Stage) -> Sequence[int]:
    """gunicorn's master process, which is the oldest, and those that answer."""
    wait_until(lambda: len(stage.pids(PROCESSES["gunicorn"])) > 1, "the API runs", 60)
    return stage.pids(PROCESSES["gunicorn"])


@fault("kill-launcher", Promise.RESUMING, Promise.LEFT_BEHIND, limits=STARTED_AGAIN)
def kill_launcher(stage: Stage, _chance: random.Random) -> float:
    """Kills the launcher, which is started again at once."""
    stage.kill(stage.service.process.pid)
    return start_again(stage)


@fault("kill-everything", Promise.LOST, Promise.LEFT_BEHIND, Promise.RESUMING, limits=STARTED_AGAIN)
def kill_everything(stage: Stage, chance: random.Random) -> float:
    """Kills all processes of the service at once, including the embedded Redis. The service is started again a moment
    later."""
    stage.kill(*stage.pids(""))
    time.sleep(chance.uniform(0, 2))
    return start_again(stage)


@fault("cut-first-start", Promise.RESUMING, is_first=True)
def cut_first_start(stage: Stage, chance: random.Random) -> None:
    """Kills the very first start at a random moment, four times."""
    for _ in range(4):
        stage.service.begin()
        time.sleep(chance.uniform(0.1, 3))
        stage.kill(*stage.pids(""))
        stage.service.process.wait()


@fault("sender-stopped", Promise.MAIL_TWICE, Promise.TEXT_TWICE, limits=Limits(stops_senders=True), slowly=8.0)
def sender_stopped(stage: Stage, chance: random.Random) -> None:
    """A sender with claimed recipients is suspended for longer than its lease, and then resumed."""
    relay = stage.folder / "relay.mode"
    say_mode(relay, "slow")
    time.sleep(2)
    with stopped(stage, chance.choice(stage.pids(PROCESSES["sender"]))):
        say_mode(relay, "take")
        time.sleep(LEASE + 10)


# ------------------------------------------------------------------------------------------ the other sides


def _behave(peer: str, mode: str, seconds: float) -> Strike:
    """A peer behaves like that for a while; a receiver that listens does until each webhook was affected."""

    def strike(stage: Stage, _chance: random.Random) -> None:
        path = stage.folder / f"{peer}.mode"
        say_mode(path, mode)
        time.sleep(seconds)
        if peer == "receiver" and mode != "down":
            wait_until(stage.is_everybody_unheard, "each webhook was left without an answer")
        say_mode(path, "take")

    return strike


fault("relay-hangs", Promise.LOST)(_behave("relay", "hang", 8))
fault("relay-hangs-in-data", Promise.LOST, Promise.MAIL_TWICE)(_behave("relay", "hang-in-data", 8))
fault("relay-forgets", Promise.MAIL_TWICE, limits=Limits(doubles_in_flight=True))(_behave("relay", "forget", 8))
fault("relay-421", Promise.LOST)(_behave("relay", "421", 5))
fault("relay-451", Promise.LOST)(_behave("relay", "451", 5))
fault("relay-550", Promise.COUNTERS)(_behave("relay", "550", 5))
fault("relay-cut-before", Promise.LOST)(_behave("relay", "cut-before", 5))
fault("relay-cut-after", Promise.MAIL_TWICE, limits=Limits(doubles_in_flight=True))(_behave("relay", "cut-after", 5))
fault("relay-slow", Promise.RESUMING)(_behave("relay", "slow", 8))
fault("gateway-down", Promise.LOST)(_behave("gateway", "down", 6))
fault("gateway-hangs", Promise.RECEIPT)(_behave("gateway", "hang", 8))
fault("gateway-throttles", Promise.LOST)(_behave("gateway", "throttle", 5))
fault("gateway-refuses", Promise.COUNTERS)(_behave("gateway", "refuse", 5))
fault("gateway-cut-after", Promise.TEXT_TWICE, Promise.RECEIPT, limits=Limits(doubles_in_flight=True))(
    _behave("gateway", "cut-after", 5)
)
fault("gateway-forgets", Promise.TEXT_TWICE, Promise.RECEIPT, limits=Limits(doubles_in_flight=True))(
    _behave("gateway", "forget", 8)
)
# The request that hung fails only at the end of the fault, and is then repeated as documented.
fault("receiver-hangs", Promise.STALL, Promise.SPACING, limits=Limits(webhook=RETRIED))(_behave("receiver", "hang", 8))
fault("receiver-closes", Promise.EVENT)(_behave("receiver", "close", 6))
fault("receiver-down", Promise.EVENT, Promise.STALL)(_behave("receiver", "down", 6))
