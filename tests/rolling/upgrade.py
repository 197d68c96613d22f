"""Upgrades under load, from the released code to this and from this to the next, and what clients and relay saw."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.db.phases import newest_revision
from tests.chaos.record import read_mails
from tests.rolling.load import FEW, MANY, Load
from tests.rolling.service import BACKGROUND, Service, unpack_released
from tests.support.documented import documented
from tests.support.launched import ROOT
from tests.support.next_release import CONTRACTED, copy_code, write_next_migrations
from tests.support.servers import wait_until

MOMENT = 1.0
"""Seconds of load between two steps."""


@dataclass(frozen=True, slots=True)
class Result:
    """What the clients and the relay have seen."""

    accepted: int
    refused: Sequence[str]
    lost: Sequence[str]
    doubled: Sequence[str]
    left_out: str

    @property
    def is_clean(self) -> bool:
        return bool(self.accepted) and not (self.refused or self.lost or self.doubled)


def run(service: Service, *, short: bool) -> Result:
    """All steps; ends the service. The short form leaves the released code out."""
    released = service.folder / "released"
    from_released = not short and unpack_released(released)
    service.install(released if from_released else ROOT)
    service.prepare()
    try:
        service.start()
        load = Load(service.port, service.list_id(), FEW if short else MANY)
        load.start()
        time.sleep(MOMENT)
        if from_released:
            _upgrade(service, ROOT, newest_revision())  # takes the database over
            time.sleep(MOMENT)
        _upgrade(service, _next_release(service.folder), CONTRACTED)
        time.sleep(MOMENT)
        load.stop()
        left_out = "this checkout lacks the released commit, so nothing was upgraded from it"
        return seen(service.folder, load, "" if from_released or short else left_out)
    finally:
        service.stop()


def _upgrade(service: Service, code: Path, revision: str) -> None:
    """Upgrades by the commands of the documentation. The same processes go on with the new code, whose newest revision
    is given."""
    before = service.ids()
    service.install(code)
    (commands,) = documented("docs/upgrade.md#the-commands")
    said = service.typed(commands)
    assert revision in said, said
    assert said.count("runs the installed code") == len(BACKGROUND) + 1, said
    assert service.ids() == before


def _next_release(folder: Path) -> Path:
    """A copy of this code with a migration of each phase."""
    code = copy_code(folder)
    write_next_migrations(code / "app" / "db" / "migrations" / "versions")
    return code


def seen(folder: Path, load: Load, left_out: str = "") -> Result:
    """What clients and relay have seen, once everything that was accepted is sent."""
    accepted = set(load.accepted)

    def taken() -> Counter[str]:
        return Counter(mail.to for mail in read_mails(folder / "relay.log") if mail.step == "taken")

    def is_complete() -> bool:
        return accepted <= taken().keys()

    with contextlib.suppress(AssertionError):
        wait_until(is_complete, "everything is sent")
    time.sleep(MOMENT)  # for a second copy of the last ones
    mails = taken()
    return Result(
        accepted=len(accepted),
        refused=load.refused,
        lost=sorted(accepted - mails.keys()),
        doubled=[to for to, count in mails.items() if count > 1],
        left_out=left_out,
    )
