"""The gateway of the suite, an SMPP server in a process of its own: `python -m tests.chaos.gateway PORT FOLDER SEED`.

It behaves as `FOLDER/gateway.mode` says, and records in `FOLDER/gateway.log` what it accepted and refused, before it
answers. Each text that it accepts gets a receipt, which it delivers again over any bind until the service has confirmed
it, as gateways do.
"""

from __future__ import annotations

import itertools
import random
import select
import socket
import sys
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.record import LISTEN, Log, MailStep, is_whole_text, mode_of
from tests.support.smpp import (
    ANSWER,
    BIND_TRANSCEIVER,
    DELIVER_SM,
    ENQUIRE_LINK,
    INVALID_DESTINATION,
    OK,
    QUEUE_FULL,
    RECEIPT,
    SUBMIT_SM,
    SYSTEM_ERROR,
    THROTTLED,
    UNBIND,
    Submission,
    address,
    deliver_sm,
    read_pdu,
    send,
    submission,
)

USUAL = (0.005, 0.03)
"""Seconds that it takes for a text, one after the other on each bind."""
UNTIL_RECEIPT = (0.0, 1.0)
UNCONFIRMED_AFTER = 5.0
"""Seconds after which a receipt that was not confirmed is delivered again, perhaps over another bind."""
AGAIN_AFTER = 0.5
RECEIPTS_AT_ONCE = 10
"""Receipts in flight on a bind."""
SHARE = 0.5
"""Share of the texts that are refused, deferred or cut off in those modes."""
TEMPORARY = (THROTTLED, QUEUE_FULL, SYSTEM_ERROR)
HEADER = 6
"""Length of the header of a part, in bytes."""
POLL = 0.05


class Cut(Exception):
    """The gateway closes the connection without an answer."""


@dataclass(slots=True)
class Receipt:
    """A receipt that the service has not confirmed."""

    message_id: str
    text: Submission
    due: float


@dataclass(eq=False, slots=True)
class Bind:
    """One connection. `in_flight`: sequence -> receipt and the moment at which it is given up."""

    link: socket.socket
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    in_flight: dict[int, tuple[Receipt, float]] = field(default_factory=dict)
    writing: threading.Lock = field(default_factory=threading.Lock)

    def write(self, command: int, status: int, sequence: int, body: bytes = b"") -> None:
        with self.writing:
            send(self.link, command, status, sequence, body)


class Gateway:
    """The state that all connections share; `lock` guards binds and receipts."""

    def __init__(self, folder: Path, seed: str) -> None:
        self._mode = folder / "gateway.mode"
        self.log = Log(folder / "gateway.log")
        self.chance = random.Random(seed)
        self.lock = threading.Lock()
        self.binds: list[Bind] = []
        self.receipts: list[Receipt] = []
        self.parts: dict[tuple[str, int], dict[int, bytes]] = {}
        """Number and reference -> the parts of a long text that were accepted."""
        self._sequence = itertools.count(1)

    @property
    def mode(self) -> str:
        return mode_of(self._mode)

    def strikes(self, mode: str) -> bool:
        """Whether the mode affects this text."""
        return self.mode == mode and self.chance.random() < SHARE

    # ------------------------------------------------------------------------------------------ one connection

    def serve(self, link: socket.socket) -> None:
        """Runs until the client or the mode closes the connection."""
        bind = Bind(link)
        end: MailStep = "lost"
        try:
            while self._wait(bind):
                command, status, sequence, body = read_pdu(link)
                self._take(bind, command, status, sequence, body)
                end = "quit" if command == UNBIND else end
            end = "quit" if end == "quit" else "cut"
        except Cut:
            end = "cut"
        except (OSError, EOFError):
            pass
        self._close(bind, end)

    def _take(self, bind: Bind, command: int, status: int, sequence: int, body: bytes) -> None:
        if command == BIND_TRANSCEIVER:
            bind.write(command | ANSWER, OK, sequence, b"smsc\0")
            with self.lock:
                self.binds.append(bind)
        elif command == SUBMIT_SM:
            self._submit(bind, sequence, submission(body))
        elif command == DELIVER_SM | ANSWER:
            self._confirm(bind, sequence, status)
        elif command in (ENQUIRE_LINK, UNBIND):
            bind.write(command | ANSWER, OK, sequence)

    def _wait(self, bind: Bind) -> bool:
        """Waits for the client. The mode closes connections only between two PDUs, so that no answer is lost by it."""
        was_silent = False
        while True:
            mode = self.mode
            if mode == "down" or (was_silent and mode != "hang"):
                return False
            was_silent = was_silent or mode == "hang"
            if was_silent:
                time.sleep(POLL)
            elif select.select([bind.link], [], [], POLL)[0]:
                return True

    def _close(self, bind: Bind, end: MailStep) -> None:
        with self.lock:
            if bind in self.binds:
                self.binds.remove(bind)
            for receipt, _ in bind.in_flight.values():
                self._again(receipt)
            bind.in_flight.clear()
        with suppress(OSError):
            bind.link.shutdown(socket.SHUT_WR)
            bind.link.settimeout(1)
            while bind.link.recv(1 << 16):  # what is unread would destroy the answers that the client has not read
                pass
        bind.link.close()
        self._note(bind, end)

    def _submit(self, bind: Bind, sequence: int, text: Submission) -> None:
        status = self._status(bind, text)
        message_id = uuid.uuid4().hex
        is_forgotten, is_cut = self.strikes("forget"), self.strikes("cut-after")
        if status == OK and self._is_complete(bind, text, answered=not (is_forgotten or is_cut)):
            with self.lock:
                due = time.monotonic() + self.chance.uniform(*UNTIL_RECEIPT)
                self.receipts.append(Receipt(message_id, text, due))
            if is_cut:
                raise Cut
            if is_forgotten:
                return
        time.sleep(self.chance.uniform(*USUAL))
        bind.write(SUBMIT_SM | ANSWER, status, sequence, message_id.encode() + b"\0" if status == OK else b"")

    def _status(self, bind: Bind, text: Submission) -> int:
        if self.strikes("throttle"):
            self._note(bind, "deferred", text)
            return self.chance.choice(TEMPORARY)
        is_first = not text.esm_class or text.body[HEADER - 1] == 1
        if is_first and self.strikes("refuse"):  # only the first part, so that nobody gets the half of a text
            self._note(bind, "refused", text)
            return INVALID_DESTINATION
        return OK

    def _is_complete(self, bind: Bind, text: Submission, *, answered: bool) -> bool:
        """Whether the text has arrived, which is recorded; keeps a part until the last one is there."""
        content = text.body
        if text.esm_class:
            *_, reference, total, number = text.body[:HEADER]
            parts = self.parts.setdefault((text.destination[2], reference), {})
            parts[number] = text.body[HEADER:]
            if number < total:
                return False
            content = b"".join(parts.get(number, b"") for number in range(1, total + 1))
        is_whole = is_whole_text(content.decode("ascii", "replace"), text.destination[2])
        self._note(bind, "taken", text, whole=is_whole, began=time.time(), answered=answered)
        return True

    def _note(self, bind: Bind, step: MailStep, text: Submission | None = None, **fields: object) -> None:
        self.log.add(connection=bind.name, step=step, to=text.destination[2] if text else "", **fields)

    # ------------------------------------------------------------------------------------------ receipts

    def _confirm(self, bind: Bind, sequence: int, status: int) -> None:
        with self.lock:
            receipt, _ = bind.in_flight.pop(sequence, (None, 0.0))
            if receipt is None:
                return  # it came too late, and another one is under way
            if status != OK:
                self._again(receipt)
                return
        self._note(bind, "confirmed", receipt.text)

    def _again(self, receipt: Receipt) -> None:
        receipt.due = time.monotonic() + AGAIN_AFTER
        self.receipts.append(receipt)

    def deliver_receipts(self) -> None:
        """Delivers what is due, in a thread of its own."""
        while True:
            time.sleep(POLL)
            if self.mode in ("hang", "down"):
                continue
            with self.lock:
                chosen = self._choose(time.monotonic())
            for bind, sequence, receipt in chosen:
                with suppress(OSError):  # the thread of the bind will notice
                    self._deliver(bind, sequence, receipt)

    def _choose(self, moment: float) -> list[tuple[Bind, int, Receipt]]:
        for bind in self.binds:
            for sequence, (receipt, until) in list(bind.in_flight.items()):
                if until < moment:
                    del bind.in_flight[sequence]
                    self.receipts.append(receipt)
        chosen = []
        for receipt in [receipt for receipt in self.receipts if receipt.due <= moment]:
            free = [bind for bind in self.binds if len(bind.in_flight) < RECEIPTS_AT_ONCE]
            if not free:
                break
            bind, sequence = self.chance.choice(free), next(self._sequence)
            bind.in_flight[sequence] = receipt, moment + UNCONFIRMED_AFTER
            self.receipts.remove(receipt)
            chosen.append((bind, sequence, receipt))
        return chosen

    def _deliver(self, bind: Bind, sequence: int, receipt: Receipt) -> None:
        addresses = address(receipt.text.destination[2]) + address(receipt.text.source[2])
        dates = "submit date:2601310900 done date:2601310901"
        words = f"id:{receipt.message_id} sub:001 dlvrd:001 {dates} stat:DELIVRD err:000"
        with bind.writing:
            bind.link.sendall(deliver_sm(sequence, addresses, words.encode(), esm_class=RECEIPT))


def serve(port: int, folder: Path, seed: str) -> None:
    """Runs until the process is terminated; it does not listen while the mode is `down`."""
    gateway = Gateway(folder, seed)
    threading.Thread(target=gateway.deliver_receipts, daemon=True).start()
    while True:
        with socket.create_server((LISTEN, port), backlog=64) as listener:
            while gateway.mode != "down":
                if select.select([listener], [], [], POLL)[0]:
                    link, _ = listener.accept()
                    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=gateway.serve, args=(link,), daemon=True).start()
        while gateway.mode == "down":
            time.sleep(POLL)


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
