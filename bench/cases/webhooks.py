"""Case F: 100,000 events to one webhook, without a pause between requests."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import orjson
from sqlalchemy import select

from app.clock import this_second
from app.db.bulk import insert_rows
from app.db.models import Event, Webhook
from app.events.batch_contents import oldest_waiting
from app.events.outbox import recipient_event
from app.events.webhooks import set_secret
from app.infrastructure.redis_client import WEBHOOKS
from bench.contacts import Shop, open_shop
from bench.floors.webhooks import WAKE_UP
from bench.options import Options
from bench.processes import running, wait_for
from bench.receiver import answers, bodies_at, check_all_arrived
from bench.stack import Stack, free_port, stack
from bench.turns import Goal, Measure, Row, in_turns

SECRETS = {"k1": "bench-" + "1" * 32, "k2": "bench-" + "2" * 32}
PUBLIC_URL = "https://bench.example"
MAX_EVENTS = 1000


def run(options: Options) -> list[Row]:
    """The row of F."""
    count = options.amount(100_000, 5_000)
    port = free_port()
    settings = {"WEBHOOK_SPACING": "0", "PUBLIC_URL": PUBLIC_URL}
    with stack(postgresql=options.postgresql, **settings) as parts, contextlib.ExitStack() as kept:
        kept.enter_context(running("receiver", ["-m", "bench.receiver", str(port)], {}, parts.folder))
        wait_for(lambda: answers(port), "the receiver answers")
        url = f"http://127.0.0.1:{port}/in"
        shop = open_shop(parts, webhook=url)
        _sign_with_both(parts, shop)
        kept.enter_context(running("webhooks", ["-m", "jobs.worker", WEBHOOKS], parts.environment, parts.folder))
        measures = {"ours": _measure(parts, shop, port, count, lambda: parts.services.wake_ups.wake(WEBHOOKS))}
        if options.postgresql:
            signers = [f"{key_id}:{secret}" for key_id, secret in SECRETS.items()]
            arguments = ["-m", "bench.floors.webhooks", str(shop.webhooks[0]), url, *signers]
            kept.enter_context(running("floor", arguments, _floor_environment(parts), parts.folder))
            measures["floor"] = _measure(parts, shop, port, count, lambda: _wake_floor(parts))
        return [in_turns("F. 100,000 events to one webhook", "events/s", Goal(0.75), options.rounds, **measures)]


def _measure(parts: Stack, shop: Shop, port: int, count: int, wake: Callable[[], object]) -> Measure:
    """A round: events wait, and a worker is woken; all arrive once and in order, and none is left."""

    def round_of_events() -> float:
        load_events(parts, shop, count)
        began = time.perf_counter()
        wake()
        batches = -(-count // MAX_EVENTS)
        wait_for(lambda: bodies_at(port) >= batches, "all batches have arrived", 120)
        wait_for(lambda: not _waiting(parts), "no event waits", 120, pause=0.002)
        elapsed = time.perf_counter() - began
        check_all_arrived(port, range(count), SECRETS)
        return count / elapsed

    return round_of_events


def load_events(parts: Stack, shop: Shop, count: int) -> None:
    """Writes events for the webhook into the outbox, not through the service; their ids begin with 0."""
    rows = [(0, shop.account_id, shop.webhooks[0], _payload(number)) for number in range(count)]
    if not parts.is_postgresql:
        names = ("slot", "account_id", "webhook_id", "payload")
        with parts.services.database.write() as transaction:
            insert_rows(transaction, Event, [dict(zip(names, row, strict=True)) for row in rows])
        return
    with parts.connect() as connection:
        # The rows that a floor deleted must not slow down the next round.
        connection.execute("TRUNCATE events")
        with connection.cursor().copy("COPY events (slot, account_id, webhook_id, payload) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        connection.commit()
        connection.autocommit = True
        connection.execute("VACUUM ANALYZE events")
        connection.execute("CHECKPOINT")


def _payload(number: int) -> str:
    event = recipient_event(
        "sent",
        recipient_id=number,
        uuid=f"0b0a6d4e-5d0c-4c57-9d0e-{number:012x}",
        group_id=1,
        group_name="Order confirmations",
        message_id=1,
        message_type="email",
        list_id=1,
        contact_id=number,
        email=f"person{number}@customers.example",
        mobile=None,
        moment=this_second(),
    )
    return orjson.dumps(event).decode()


def _sign_with_both(parts: Stack, shop: Shop) -> None:
    """Gives the webhook two secrets, as while one replaces the other."""
    with parts.services.database.write() as transaction:
        webhook = transaction.get_one(Webhook, shop.webhooks[0])
        for key_id, secret in SECRETS.items():
            set_secret(transaction, parts.services.settings, webhook, key_id, secret)


def _floor_environment(parts: Stack) -> dict[str, str]:
    return {**parts.environment, "REDIS_URL": parts.services.settings.redis_url}


def _wake_floor(parts: Stack) -> None:
    parts.services.redis.rpush(WAKE_UP, "look")


def _waiting(parts: Stack) -> bool:
    waiting = oldest_waiting(Webhook.id, Webhook.position, 1).scalar_subquery()
    with parts.services.database.read() as session:
        return session.scalars(select(Webhook.id).where(waiting.is_not(None)).limit(1)).first() is not None
