"""A backup that was made under load, restored into another folder and database: it shows one moment, after whatever had
been accepted before it began."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from app.services import make_services
from app.settings import from_environment
from tests.chaos.check import broken_groups
from tests.chaos.facts import Facts, facts
from tests.chaos.record import RoundRecord
from tests.chaos.stage import Stage
from tests.support.servers import scratch_database

SETTLED = ("delivered", "sent", "bounced", "failed")


def complaints(stage: Stage, seen: RoundRecord, command: Callable[..., object] | None = None) -> list[str]:
    """Restores the second backup, or the only one, and checks it. `command` runs the restore."""
    began, file = stage.backups[:2][-1]
    with contextlib.ExitStack() as kept:
        settings = {"DATA_DIR": str(stage.folder / "restored")}
        if stage.on_postgresql:
            settings["DATABASE_URL"] = kept.enter_context(scratch_database(stage.postgresql.url))
        (command or stage.command)("restore", str(file), settings=settings)
        services = make_services(from_environment({**stage.service.environment, **settings, "DATABASE_POOL": "2"}))
        kept.callback(services.redis.close)
        kept.callback(services.database.close)
        all_broken = list(broken(began, seen, facts(stage.services), facts(services)))
    return [
        f"in the backup {len(examples)} {what}: {', '.join(examples[:5])}" for what, examples in all_broken if examples
    ]


def broken(began: float, seen: RoundRecord, live: Facts, restored: Facts) -> Iterator[tuple[str, list[str]]]:
    """What is wrong about a restored backup that began at that moment."""
    uuids = {person.uuid for person in restored.people}
    accepted = {to for to, moment in seen.answered.items() if moment < began}
    yield "accepted messages are missing", sorted(to for to in accepted if seen.accepted[to] not in uuids)
    live_uuids = {person.uuid for person in live.people}
    yield "messages are of nobody", [person.address for person in restored.people if person.uuid not in live_uuids]
    loose = [person for person in restored.people if person.state not in (*SETTLED, "held")]
    yield "messages are neither settled nor held", [f"{person.address} is {person.state}" for person in loose]
    taken = {mail.to for mail in (*seen.mails, *seen.texts) if mail.step == "taken"}
    early = [
        person for person in restored.people if person.state in ("delivered", "sent") and person.address not in taken
    ]
    yield "messages are sent that nobody has", [person.address for person in early]
    yield from broken_groups(restored)
