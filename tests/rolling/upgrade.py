"""An upgrade under load, from the released code and of this code by itself, and what clients and relay saw of it."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.record import read_mails
from tests.rolling.load import Load
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


def run(service: Service) -> Result:
    """All steps; ends the service."""
    released = service.folder / "released"
    from_released = unpack_released(released)
    service.install(released if from_released else ROOT)
    service.prepare()
    try:
        service.start()
        load = Load(service.port, service.list_id())
        load.start()
        time.sleep(MOMENT)
        if from_released:
            _from_released(service)
        _in_place(service)
        time.sleep(MOMENT)
        load.stop()
        left_out = "this checkout lacks the released commit, so nothing was upgraded from it"
        return seen(service.folder, load, "" if from_released else left_out)
    finally:
        service.stop()


def _from_released(service: Service) -> None:
    """Its processes are ended one after the other, but the API's hands its sockets over. The database is taken over
    by the baseline."""
    service.install(ROOT)
    service.command("db", "upgrade", "--expand")
    time.sleep(MOMENT)
    service.restart_background()
    service.replace_web()
    service.command("db", "upgrade", "--contract")
    time.sleep(MOMENT)


def _in_place(service: Service) -> None:
    """By the commands of the documentation, to a release with migrations of both phases."""
    before = service.ids()
    code = copy_code(service.folder)
    write_next_migrations(code / "app" / "db" / "migrations" / "versions")
    service.install(code)
    (commands,) = documented("docs/operations.md#upgrading")
    said = service.typed(commands)
    assert CONTRACTED in said, said
    assert said.count("runs the installed code") == len(BACKGROUND) + 1, said
    assert service.ids() == before


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
