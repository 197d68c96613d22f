"""Case P: 100,000 steps of an automation that are due at once, and finding what is due among 1,000,000 waiting runs."""

from __future__ import annotations

import contextlib
import time
from datetime import timedelta

from sqlalchemy import delete, text

from app.clock import now
from app.db.models import AutomationRun, QueueEntry
from app.maintenance.sweeps import RunSweep
from app.runs.work import advance_due
from bench.contacts import Shop, fill, open_shop
from bench.delivering import Delivery, without_keys
from bench.mail import sink
from bench.options import Options
from bench.processes import CaseFailure
from bench.stack import Stack, api, seed, stack
from bench.turns import Goal, Measure, Row, in_turns

ENOUGH_STEPS, SHARE_OF_SENDS = 5_000, 0.5
"""Steps a second of a worker, or their share of the mails that a sending process delivers."""
MAX_SLOWDOWN = 1.2
"""How much longer a look may take among a thousand times as many runs."""
FEW_RUNS = 1_000
COPIES = 10
"""Runs of each contact among which is looked."""
CONTENT = {"subject": "Hi %%first_name**there%%", "body_text": "Hello %%first_name**there%%", "from_name": "Bench"}
MESSAGE = {"name": "Welcome", "type": "email", "from_address": "hello@bench.example", **CONTENT}
AUTOMATION = {
    "name": "Series",
    "kind": "advanced",
    "list": "Customers",
    # Not by what the plain sends create.
    "trigger": "REST API Contact Updated",
    "again": "always",
    "steps": [{"name": "hello", "send": "Welcome"}, {"name": "a day", "wait": "1 day"}],
}
ENTER = text(
    "INSERT INTO automation_runs (account_id, automation_id, version_id, list_id, contact_id, entry_key, trigger_time, "
    "state, step, due_time, attempts, skips_next, shifted_seconds) "
    "SELECT c.account_id, a.id, v.id, c.list_id, c.id, :copy, :due, 'waiting', 'hello', :due, 0, :no, 0 "
    "FROM contacts c JOIN automations a ON a.list_id = c.list_id JOIN automation_versions v ON v.automation_id = a.id "
    "WHERE c.list_id = :list_id ORDER BY c.id LIMIT :count"
)


def run(options: Options) -> list[Row]:
    """The rows of P: `floor` of the steps is the delivery of plain sends by a process, that of the look the same among
    a thousandth of the runs."""
    count = options.amount(100_000, 500)
    with stack(postgresql=options.postgresql) as parts, contextlib.ExitStack() as kept:
        target = kept.enter_context(sink(parts))
        shop = open_shop(parts)
        delivery = Delivery(parts, shop, kept.enter_context(api(parts)), target)
        seed(parts, {"name": "Bench", "messages": [MESSAGE], "automations": [AUTOMATION]})
        fill(parts, shop, count)
        mails = options.amount(12_000 if options.postgresql else 2_000, 300)
        with without_keys(parts), delivery.ours(mails) as plain:
            drained = in_turns(
                "P. 100,000 steps due at once, a worker",
                "steps/s",
                Goal(SHARE_OF_SENDS, enough=ENOUGH_STEPS),
                options.rounds,
                ours=_drain(parts, shop, count),
                floor=plain,
            )
        looks = in_turns(
            "P. look for due runs among 1,000,000",
            "looks/s",
            Goal(1 / MAX_SLOWDOWN),
            options.rounds,
            ours=_look(parts, shop, count, options.amount(COPIES, 1)),
            floor=_look(parts, shop, min(FEW_RUNS, count), 1),
        )
    return [drained, looks]


def _enter(parts: Stack, shop: Shop, count: int, *, copy: int = 0, later: timedelta = timedelta()) -> None:
    """So many runs, past the service, which are due now or later."""
    values = {"list_id": shop.list_id, "count": count, "copy": copy, "due": now() + later, "no": False}
    with parts.services.database.write() as transaction:
        transaction.execute(ENTER, values)


def _forget(parts: Stack) -> None:
    """No round pays for what the one before has left to be vacuumed, or delivers what it has written."""
    if parts.is_postgresql:
        with parts.connect() as connection:
            connection.execute("TRUNCATE automation_runs, send_queue CASCADE")
        return
    with parts.services.database.write() as transaction:
        for model in (AutomationRun, QueueEntry):
            transaction.execute(delete(model))


def _analyze(parts: Stack) -> None:
    if parts.is_postgresql:
        with parts.connect() as connection:
            connection.autocommit = True
            connection.execute("VACUUM ANALYZE automation_runs")


def _drain(parts: Stack, shop: Shop, count: int) -> Measure:
    """A round: all runs take their first step, which sends, and wait in the second."""

    def measure() -> float:
        _forget(parts)
        _enter(parts, shop, count)
        began, done = time.perf_counter(), 0
        while advanced := advance_due(parts.services):
            done += advanced
        elapsed = time.perf_counter() - began
        if done != count:
            raise CaseFailure(f"{done} of {count} runs were advanced")
        _forget(parts)
        return count / elapsed

    return measure


def _look(parts: Stack, shop: Shop, count: int, copies: int) -> Measure:
    """Rounds of the scheduler's looks while so many runs wait and none is due."""

    def measure() -> float:
        _forget(parts)
        for copy in range(copies):
            _enter(parts, shop, count, copy=copy, later=timedelta(days=1))
        _analyze(parts)
        looks, sweep = 500, RunSweep(full_share=1)
        began = time.perf_counter()
        for _ in range(looks):
            with parts.services.database.read() as session:
                if sweep.finds_work(session):
                    raise CaseFailure("nothing should be due")
        return looks / (time.perf_counter() - began)

    return measure
