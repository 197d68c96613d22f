"""The test's end of an SMPP server that another library makes (tests/interop/smsc_process.py)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.launched import ROOT
from tests.support.servers import free_port

PATIENCE = 60.0
Event = dict[str, Any]


class Gateway:
    """A running server: what it has received, and how it is to respond."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.url = f"smpp://service:secret@127.0.0.1:{port}"
        self._process = process
        self._events: list[Event] = []
        self._changed = threading.Condition()

    def listen(self) -> None:
        """Notes what the server prints, to its end."""
        assert self._process.stdout
        for line in self._process.stdout:
            with self._changed:
                self._events.append(json.loads(line))
                self._changed.notify_all()

    def wait(self, name: str, matching: Callable[[Event], bool] = lambda _: True, count: int = 1) -> list[Event]:
        """The events of that name, once there are so many that match."""

        def matching_events() -> list[Event]:
            return [event for event in self._events if event["event"] == name and matching(event)]

        with self._changed:
            assert self._changed.wait_for(lambda: len(matching_events()) >= count, PATIENCE), self._events
            return matching_events()

    def order(self, name: str, **fields: Any) -> None:
        """Sends the server a command."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"order": name, **fields}) + "\n")
        self._process.stdin.flush()

    def texts_to(self, mobile: str, count: int = 1) -> list[Event]:
        """What was submitted for the mobile, once there is so much of it."""
        return self.wait("submitted", lambda event: event["destination"] == mobile, count)

    def write(self, mobile: str, number: str, body: bytes, *, coding: str = "LATIN_1", **optional: Any) -> str:
        """A reply to a number; returns the status of the service's answer."""
        return self._hand_in(mobile, number, "DEFAULT", body=body.hex(), coding=coding, **optional)

    def receipt(self, text: Event, words: str = "", **optional: Any) -> str:
        """A receipt for a submitted text; the status of the service's answer."""
        fields = {"body": words.encode().hex(), "coding": "SMSC_DEFAULT_ALPHABET", **optional}
        return self._hand_in(text["destination"], text["source"][1], "SMSC_DELIVERY_RECEIPT", **fields)

    def _hand_in(self, mobile: str, number: str, kind: str, **fields: Any) -> str:
        handed_in = sum(event["event"] == "handed in" for event in self._events)
        self.order("hand_in", mobile=mobile, number=number, kind=kind, **fields)
        return str(self.wait("handed in", count=handed_in + 1)[handed_in]["status"])


@contextmanager
def gateway(folder: Path) -> Iterator[Gateway]:
    """A running one on a port of the loopback address."""
    port = free_port()
    command = [sys.executable, "-m", "tests.interop.smsc_process", str(port)]
    pipe = subprocess.PIPE
    with (
        (folder / "smsc.log").open("wb") as log,
        subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=log, text=True) as process,
    ):
        made = Gateway(process, port)
        listening = threading.Thread(target=made.listen, daemon=True)
        listening.start()
        try:
            made.wait("ready")
            yield made
        finally:
            process.kill()
            listening.join()
