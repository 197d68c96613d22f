"""The result of one delivery attempt: the fact from which everything else follows, and the journal that keeps it."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from app.db.types import storable_id, storable_text
from app.infrastructure.liveness import create_locked, delete_stale_drafts, lock_if_dead, write_all
from app.recipients.redaction import Redaction
from app.recipients.states import FailReason
from app.sends.secret_values import SecretValues
from app.settings import Settings
from app.transports.base import DeliveryResult, Outcome, Untaken

logger = logging.getLogger(__name__)


MAX_SEGMENTS = 255
INTERNAL_FAULT = "internal fault"
"""How the text of a deferral begins that is a fault of our own."""
_CODE = re.compile(r"[245]\.[0-9]{1,3}\.[0-9]{1,3}")


class AttemptResult(NamedTuple):
    """Result of one delivery attempt.

    `attempt` is the number of the attempt, so that a result read from a journal is never mistaken for that of a later
    attempt. `skip` is the reason for not sending at all, with `detail` where the reason needs one; otherwise `result`
    is the transport's answer, and `rendered` how many bytes the message was rendered to. `transport` is the name of the
    transport that answered; None for the one in the settings (docs/routes.md#named-transports). `retry_in` is the
    time in seconds until the next attempt after a deferral, infinite if there is none; None if the retry rules apply.
    `is_test` is whether the account is a test account.
    """

    recipient_id: int
    attempt: int
    address: str | None
    moment: datetime
    result: DeliveryResult | None = None
    skip: FailReason | None = None
    detail: str | None = None
    rendered: int | None = None
    transport: str | None = None
    retry_in: float | None = None
    is_test: bool = False

    def line(self) -> bytes:
        """A line for the journal. Only attempts that reached the transport are written there."""
        if self.result is None:
            raise ValueError("an attempt without a result is not for the journal")
        fields = {
            "recipient_id": self.recipient_id,
            "attempt": self.attempt,
            "address": self.address,
            "moment": self.moment.isoformat(),
            "outcome": self.result.outcome.value,
            "reply": self.result.reply,
            "status": self.result.status,
            "gateway_id": self.result.gateway_id,
            "segments": self.result.segments,
            "note": self.result.note,
            **({"untaken": self.result.untaken.value} if self.result.untaken else {}),
            **({"about_sender": True} if self.result.about_sender else {}),
            "rendered": self.rendered,
            **({"transport": self.transport} if self.transport else {}),
            **({"retry_in": self.retry_in} if self.retry_in is not None else {}),
            **({"is_test": True} if self.is_test else {}),
        }
        return orjson.dumps(fields) + b"\n"


def parse_line(line: bytes) -> AttemptResult:
    """Parses a line of a journal; raises `ValueError` for one that was cut short."""
    try:
        fields: dict[str, Any] = orjson.loads(line)
        return AttemptResult(
            recipient_id=fields["recipient_id"],
            attempt=fields["attempt"],
            address=fields["address"],
            moment=datetime.fromisoformat(fields["moment"]),
            result=DeliveryResult(
                Outcome(fields["outcome"]),
                fields["reply"],
                fields["status"],
                fields.get("gateway_id"),  # a journal of an older version has neither
                fields.get("segments"),
                fields.get("note"),
                Untaken(fields["untaken"]) if "untaken" in fields else None,
                about_sender=bool(fields.get("about_sender")),
            ),
            rendered=fields.get("rendered"),
            transport=fields.get("transport"),
            retry_in=fields.get("retry_in"),
            is_test=bool(fields.get("is_test")),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a journal line: {error}") from None


def parse_lines(content: bytes) -> list[AttemptResult]:
    """The results in the lines of a journal, without a line that a kill or a full disk cut short: that message was in
    flight."""
    results = []
    for line in content.splitlines():
        with contextlib.suppress(ValueError):
            results.append(parse_line(line))
    return results


def sanitize_result(result: object) -> DeliveryResult:
    """The result in a form that databases, journal and JSON can store, whatever a transport has answered. Raises
    nothing: a message that a relay or gateway has accepted must not be sent again because of the text of its reply.

    An answer without an outcome is a fault of the transport, and defers.
    """
    if not isinstance(result, DeliveryResult) or tuple.__len__(result) != len(DeliveryResult._fields):
        return _unreadable(result)
    outcome, reply, status, gateway_id, segments, note, untaken, about_sender = list[Any](tuple.__iter__(result))
    if type(outcome) is not Outcome:
        return _unreadable(outcome)
    is_code = type(status) is str and _CODE.fullmatch(status)
    is_count = type(segments) is int and 0 < segments <= MAX_SEGMENTS
    return DeliveryResult(
        outcome,
        storable_text(reply),
        status if is_code else None,
        None if gateway_id is None else storable_id(gateway_id),
        segments if is_count else None,
        None if note is None else storable_text(note),
        untaken if type(untaken) is Untaken else None,
        about_sender is True,
    )


def redact_reply(result: DeliveryResult, redaction: Redaction, secrets: SecretValues | None = None) -> DeliveryResult:
    """The result with a reply that tenants may read; the whole reply becomes the note if it differs. Neither quotes
    secret values of the message."""
    if secrets is not None:
        result = result._replace(reply=secrets.mask(result.reply), note=result.note and secrets.mask(result.note))
    reply = redaction.redact(result.reply)
    if reply == result.reply:
        return result
    notes = [result.reply, *([result.note] if result.note else [])]
    return result._replace(reply=reply, note="; ".join(notes))


def internal_fault(error: BaseException) -> DeliveryResult:
    """The deferral after an error of the service itself, or of an installed transport."""
    return DeliveryResult.deferred(f"{INTERNAL_FAULT}: {type(error).__name__[:100]}", "4.3.0")


def _unreadable(answer: object) -> DeliveryResult:
    logger.error("a transport's answer is not a result", extra={"type": type(answer).__name__})
    return internal_fault(TypeError())


JOURNAL_SUFFIX = ".journal"


def journal_folder(settings: Settings) -> Path:
    """The folder of the journals of this machine's workers."""
    return settings.data_dir / "journals"


def journal_sizes(settings: Settings) -> list[int]:
    """The bytes of each journal of this machine."""
    sizes = []
    with contextlib.suppress(OSError):
        for path in journal_folder(settings).glob(f"*{JOURNAL_SUFFIX}"):
            with contextlib.suppress(OSError):  # recovered and deleted meanwhile
                sizes.append(path.stat().st_size)
    return sizes


def read_journals(settings: Settings) -> Iterator[tuple[str, bytes]]:
    """The name and the content of each journal of this machine. Raises `OSError`."""
    for path in sorted(journal_folder(settings).glob(f"*{JOURNAL_SUFFIX}")):
        try:
            content = path.read_bytes()
        except FileNotFoundError:  # recovered and deleted meanwhile
            continue
        yield path.name, content


class Journal:
    """The journal that this process writes, from several threads. `mirror` is called with each recipient and its
    line."""

    def __init__(self, folder: Path, worker: str, mirror: Callable[[int, bytes], None] | None = None) -> None:
        self._mirror = mirror
        self._path = folder / f"{worker}{JOURNAL_SUFFIX}"
        self._descriptor = create_locked(self._path)
        self._lock = threading.Lock()
        self._cut = False
        """The last line may have been cut short: on a full disk, for example."""
        self.is_broken = False
        """The journal could not be written, and has not been repaired since."""

    def append(self, attempt_result: AttemptResult) -> None:
        """Appends one result on a separate line, and hands a copy to the mirror in any case. Raises `OSError`."""
        copy = line = attempt_result.line()
        try:
            with self._lock:
                line, self._cut = b"\n" + line if self._cut else line, True
                write_all(self._descriptor, line)
                self._cut = False
        except OSError:
            self.is_broken = True
            raise
        finally:
            if self._mirror:
                self._mirror(attempt_result.recipient_id, copy)

    def clear(self, unwritten: Collection[int] = ()) -> None:
        """Deletes what is in the database: all results but those of these recipients. A kill leaves them whole. Raises
        `OSError`."""
        with self._writing():
            results = parse_lines(self._content()) if unwritten else []
            lines = b"".join(result.line() for result in results if result.recipient_id in unwritten)
            if lines:
                self._replace(lines)
            else:
                os.ftruncate(self._descriptor, 0)
            self._cut = False

    def repair(self) -> None:
        """Makes sure that results can be written where whoever recovers them finds them: in a new file, with what this
        one has, if it was deleted or its folder replaced. Raises `OSError` as long as they cannot."""
        with self._writing():
            if not self._is_in_place():
                self._replace(self._content())
            if self.is_broken:
                write_all(self._descriptor, b"\n")  # ends a line that was cut, and shows whether there is room
                self._cut = self.is_broken = False

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except OSError:
                self.is_broken = True
                raise

    def _content(self) -> bytes:
        return os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)

    def _replace(self, content: bytes) -> None:
        """Goes on in a new file, which has the content from the moment at which it takes the place of this one."""
        replaced, self._descriptor = self._descriptor, create_locked(self._path, content)
        os.close(replaced)

    def _is_in_place(self) -> bool:
        try:
            file_status = os.stat(self._path)
        except FileNotFoundError:
            return False
        return os.path.samestat(file_status, os.fstat(self._descriptor))

    def close(self) -> None:
        """Unlocks it: for the next drain on this machine its worker is dead, and its rows are recovered."""
        os.close(self._descriptor)


@dataclass(frozen=True, slots=True)
class FoundJournal:
    """A journal in the folder; `dead` if its worker does not run any more. Whether it does is not known of one of this
    boot that cannot be opened, which is `unreadable`."""

    path: Path
    dead: bool
    unreadable: bool = False

    @property
    def worker(self) -> str:
        """The worker that writes it."""
        return self.path.name.removesuffix(JOURNAL_SUFFIX)

    def results(self) -> list[AttemptResult]:
        """The results in the journal. Raises `OSError` for a journal that cannot be read."""
        try:
            return parse_lines(self.path.read_bytes())
        except FileNotFoundError:
            return []


@contextlib.contextmanager
def scan_journals(folder: Path) -> Iterator[list[FoundJournal]]:
    """The journals of this machine. Those of dead workers are locked inside the block, and those that are dead in the
    list are deleted after it, unless the block raises: no other process recovers them meanwhile. Raises `OSError` if
    the folder cannot be read."""
    with contextlib.ExitStack() as locks:
        journals = [_found_journal(folder / name, locks) for name in _names(folder)]
        yield journals
        for journal in journals:
            if journal.dead:
                journal.path.unlink(missing_ok=True)
        delete_stale_drafts(folder)


def _names(folder: Path) -> list[str]:
    """The names of the journals in the folder; none if there is no folder."""
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(JOURNAL_SUFFIX))
    except FileNotFoundError:
        return []


def _found_journal(path: Path, locks: contextlib.ExitStack) -> FoundJournal:
    try:
        return FoundJournal(path, lock_if_dead(path, locks))
    except OSError:
        return FoundJournal(path, dead=False, unreadable=True)
