"""Services over an empty database and a Redis that can be stopped, for tests of processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import insert

from app.clock import now
from app.db.models import Event, QueueEntry, Recipient, Send, Webhook
from app.http.context import EXTENSION
from app.services import Services
from tests.conftest import test_settings
from tests.support.apps import new_app
from tests.support.prepared import migrated_file
from tests.support.redis_process import RedisProcess
from tests.support.rows import UNSETTLED
from tests.support.servers import emptied_database, short_folder
from tests.support.tenants import Tenant, new_tenant, unique


@dataclass
class Alone:
    """Services that no other test uses, with one account."""

    services: Services
    redis: RedisProcess
    tenant: Tenant

    def waiting(self, queue: str) -> int:
        """The number of wake-ups in a queue."""
        return int(self.services.redis.llen(f"rq:queue:{queue}"))

    def add_recipient(self, **values: Any) -> int:
        """Adds a recipient that is due now, of a send of its own; keyword arguments override columns."""
        moment = now()
        send_id = self.tenant.add(
            Send,
            request_id="r",
            creation_time=moment,
            type="email",
            group_id=1,
            group_name="g",
            from_address=f"hello@{self.tenant.domain}",
        )
        defaults = {
            "uuid": unique("uuid"),
            "send_id": send_id,
            "group_id": 1,
            "type": "email",
            "values": {},
            "state": "queued",
            "creation_time": moment,
            "open_type": "not_opened",
        }
        entry_columns: dict[str, Any] = {
            name: values.pop(name) for name in ("due_time", "lease_time", "worker") if name in values
        }
        recipient_id = self.tenant.add(Recipient, **{**defaults, **values})
        state = values.get("state", "queued")
        if state in UNSETTLED:
            due_time = entry_columns.get("due_time", moment)
            entry = {
                "due_time": due_time,
                "ready_time": max(due_time, now()),
                "state": state,
                "priority": "normal",
                **entry_columns,
            }
            with self.services.database.write() as transaction:
                entry |= {"account_id": self.tenant.id, "recipient_id": recipient_id}
                transaction.execute(insert(QueueEntry).values(**entry))
        return recipient_id

    def add_event(self, due: datetime) -> int:
        """Adds an event of a webhook that is due at a time."""
        webhook_id = self.tenant.add(Webhook, url=f"https://{unique()}.example/", creation_time=now(), due_time=due)
        return self.tenant.add(Event, webhook_id=webhook_id, payload="{}")


@contextmanager
def alone(postgres: str | None) -> Iterator[Alone]:
    """Uses SQLite, or a new database of the PostgreSQL server."""
    with ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        redis = RedisProcess(folder)
        redis.start()
        stack.callback(redis.kill)
        database = (
            stack.enter_context(emptied_database(postgres)) if postgres else migrated_file(folder / "tms.sqlite3")
        )
        app = new_app(test_settings(folder, DATABASE_URL=database, REDIS_URL=redis.url))
        services: Services = app.extensions[EXTENSION]
        stack.callback(services.redis.close)
        stack.callback(services.database.close)
        yield Alone(services, redis, new_tenant(app))
