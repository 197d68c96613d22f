"""Verifying the audit log by its seals: where the chain breaks, and what is wrong there (docs/audit.md#verifying)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, func, or_, select
from sqlalchemy.exc import OperationalError

from app.audit.chain import entry_digest, purged_mark, seal_hash
from app.audit.seals import ENTRIES, SEALS, STORED_KEYS, seal_keys
from app.clock import now
from app.db.expressions import in_json
from app.db.models import Account
from app.secret_keys import SecretKeys
from app.settings import Settings, parse_retention

PAGE = 1000
"""Seals that are read at once."""
MAX_BREAKS = 100
"""Breaks that are named; the first is the one that matters."""

ENTRY_CHANGED = "the entry was changed"
ENTRY_MISSING = "the entry is missing"
SEAL_MISSING = "the seal is missing"
SEAL_CHANGED = "the seal was changed"
OUT_OF_ORDER = "the entry is out of order"
KEY_MISSING = "the seal cannot be checked, because its key is encrypted under an unknown SECRET_KEY"
OTHER_SEAL = "the seal differs from the noted seal"

Seal = Mapping[str, Any]
Entry = Mapping[str, Any]
NUMBER_COLUMNS, TEXT_COLUMNS = ("first_number", "entry_id", "key_id"), ("digest", "hash")
DECODING_ERROR = "Could not decode"
"""SQLite's message about text that is not UTF-8."""


class Break(NamedTuple):
    """A place where the log is not as it was sealed, by the id of the entry and the number of its seal, as far as they
    are known."""

    entry_id: int | None
    seal: int | None
    problem: str

    def __str__(self) -> str:
        names = (("entry", self.entry_id), ("seal", self.seal))
        where = ", ".join(f"{name} {number}" for name, number in names if number is not None)
        return f"{where or 'all seals'}: {self.problem}"


class NotedSeal(NamedTuple):
    """A seal that somebody has noted elsewhere."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"


@dataclass(slots=True)
class Verification:
    """What verifying has found. `purged` entries were deleted by the retention, the last of them at `purged_time`;
    `waiting` ones are not sealed yet. `is_noted_purged`: the seal that was noted stands for a purged entry, so that it
    cannot be compared any more."""

    sealed: int = 0
    purged: int = 0
    purged_time: datetime | None = None
    waiting: int = 0
    last: NotedSeal | None = None
    is_noted_purged: bool = False
    breaks: Sequence[Break] = ()


def verify(
    connection: Connection, settings: Settings, noted: NotedSeal | None = None, secret_keys: SecretKeys = ()
) -> Verification:
    """Compares all entries with their seals, a page at a time, in a transaction that sees one moment. `secret_keys` are
    those of the database, if they are not the ones of the settings."""
    stored = connection.execute(STORED_KEYS).all()
    keys = seal_keys(stored, secret_keys or settings.secret_keys)
    chain = _Chain(keys, _purged_before(connection, settings), noted)
    for seals, entries in _pages(connection):
        for number, seal in seals.items():
            chain.add(number, seal, entries)
    chain.end(has_keys=bool(stored), passed_over=_passed_over(connection, chain.last_id))
    waiting = select(func.count()).select_from(ENTRIES).where(ENTRIES.c.id > chain.last_id)
    chain.verification.waiting = connection.execute(waiting).scalar_one()
    return chain.verification


@dataclass(slots=True)
class _Chain:
    """The chain as far as it has been followed."""

    keys: Mapping[int, bytes]
    purged_before: datetime | None
    noted: NotedSeal | None
    verification: Verification = field(default_factory=Verification)
    number: int = 0
    last_id: int = 0
    hashes: Sequence[str] = ("",)
    """What the hash of the next seal may be made of: the last one as it is stored, and as it should be. None is known
    behind a missing seal."""
    breaks: list[tuple[int, Break]] = field(default_factory=list)
    """Each with the entry at which it is."""

    def add(self, number: int, seal: Seal | None, entries: Mapping[int, Entry | None]) -> None:
        """Adds the next seal; None for one that cannot be read."""
        if seal is None:
            self._note(self.last_id, Break(None, number, SEAL_CHANGED))
            self.number, self.hashes = number, ()
            return
        if seal["first_number"] > self.number + 1:
            self._note(self.last_id, Break(None, self.number + 1, SEAL_MISSING))
            self.hashes = ()
        if problem := self._problem(seal, entries):
            self._note(seal["entry_id"], Break(seal["entry_id"], number, problem))
        self._count(seal, entries)
        self._compare(seal)
        self.number, self.last_id = number, max(self.last_id, seal["entry_id"])

    def end(self, *, has_keys: bool, passed_over: Sequence[int]) -> None:
        """Adds what no seal shows: entries without one, seals that were noted or whose key there is."""
        if has_keys and self.verification.last is None:
            self._note(0, Break(None, None, SEAL_MISSING))
        if self.noted is not None and self.noted.number > self.number:
            self._note(self.last_id, Break(None, self.noted.number, SEAL_MISSING))
        for entry_id in passed_over:
            self._note(entry_id, Break(entry_id, None, SEAL_MISSING))
        self.verification.breaks = [
            chain_break for _, chain_break in sorted(self.breaks, key=lambda entry_and_break: entry_and_break[0])
        ][:MAX_BREAKS]

    def _note(self, entry_id: int, chain_break: Break) -> None:
        if len(self.breaks) < 2 * MAX_BREAKS:
            self.breaks.append((entry_id, chain_break))

    def _count(self, seal: Seal, entries: Mapping[int, Entry | None]) -> None:
        self.verification.last = NotedSeal(seal["number"], seal["hash"])
        if seal["purged_time"] is not None:
            self.verification.purged += seal["number"] - seal["first_number"] + 1
            self.verification.purged_time = max(
                self.verification.purged_time or seal["purged_time"], seal["purged_time"]
            )
        elif seal["entry_id"] in entries:
            self.verification.sealed += 1
        elif self._is_past_retention(seal):
            self.verification.purged += 1

    def _compare(self, seal: Seal) -> None:
        if self.noted is None:
            return
        if seal["number"] == self.noted.number and seal["hash"] != self.noted.hash:
            self._note(seal["entry_id"], Break(seal["entry_id"], seal["number"], OTHER_SEAL))
        if seal["first_number"] <= self.noted.number < seal["number"]:
            self.verification.is_noted_purged = True

    def _problem(self, seal: Seal, entries: Mapping[int, Entry | None]) -> str | None:
        """What is wrong with the seal or its entry, if anything is."""
        hashes, self.hashes = self.hashes, (seal["hash"],)
        if seal["first_number"] <= self.number or seal["entry_id"] <= self.last_id:
            self.hashes = (*hashes, seal["hash"])
            return OUT_OF_ORDER
        key = self.keys.get(seal["key_id"])
        if key is None:
            return KEY_MISSING
        if seal["purged_time"] is not None:
            return None if seal["purged_mark"] == purged_mark(key, seal) else SEAL_CHANGED
        made = [seal_hash(key, seal, hash_before) for hash_before in hashes]
        if hashes and seal["hash"] not in made:
            self.hashes = (seal["hash"], *made)
            return SEAL_CHANGED
        return self._problem_of_entry(key, seal, entries)

    def _problem_of_entry(self, key: bytes, seal: Seal, entries: Mapping[int, Entry | None]) -> str | None:
        if seal["entry_id"] not in entries:
            return None if self._is_past_retention(seal) else ENTRY_MISSING
        entry = entries[seal["entry_id"]]
        try:
            is_same = entry is not None and entry_digest(key, entry) == seal["digest"]
        except TypeError:
            is_same = False
        return None if is_same else ENTRY_CHANGED

    def _is_past_retention(self, seal: Seal) -> bool:
        """Whether a process of a release that makes no checkpoints may have purged the entry."""
        return self.purged_before is not None and seal["time"] < self.purged_before


def _purged_before(connection: Connection, settings: Settings) -> datetime | None:
    """Entries from before are past all retentions; None if some are kept for ever."""
    account_texts = connection.execute(select(Account.retain_audit).distinct()).scalars()
    retentions = [settings.retain_audit, *(parse_retention(text) for text in account_texts if text is not None)]
    kept = [retention for retention in retentions if retention is not None]
    return now() - max(kept) if len(kept) == len(retentions) else None


def _pages(connection: Connection) -> Iterator[tuple[Mapping[int, Seal | None], Mapping[int, Entry | None]]]:
    """The seals by their numbers, in their order, with their entries by id; None for a row that cannot be read."""
    last = 0
    while True:
        following = select(SEALS.c.number).where(SEALS.c.number > last).order_by(SEALS.c.number).limit(PAGE)
        numbers = connection.execute(following).scalars().all()
        if not numbers:
            return
        seals = _rows(connection, lambda some: select(SEALS).where(in_json(SEALS.c.number, some)), numbers)
        page_of_seals = {number: seal if seal and _is_well_formed(seal) else None for number, seal in seals.items()}
        ids = [seal["entry_id"] for seal in page_of_seals.values() if seal]
        present = connection.execute(select(ENTRIES.c.id).where(in_json(ENTRIES.c.id, ids))).scalars().all()
        yield page_of_seals, _rows(connection, lambda some: select(ENTRIES).where(in_json(ENTRIES.c.id, some)), present)
        last = numbers[-1]


def _rows(
    connection: Connection, statement: Callable[[Sequence[int]], Select[Any]], keys: Sequence[int]
) -> dict[int, Mapping[str, Any] | None]:
    """The rows with these keys, in their order; the key is the first column. SQLite takes values of any type: a row
    that has one of which no text, time or JSON can be made is None."""
    try:
        rows = connection.execute(statement(keys)).mappings().all()
    except (ValueError, TypeError, OperationalError) as error:
        if isinstance(error, OperationalError) and DECODING_ERROR not in str(error.orig):
            raise
        if len(keys) == 1:
            return {keys[0]: None}
        half = len(keys) // 2
        return {**_rows(connection, statement, keys[:half]), **_rows(connection, statement, keys[half:])}
    by_key = {next(iter(row.values())): dict(row) for row in rows}
    return {key: by_key[key] for key in keys}


def _is_well_formed(seal: Seal) -> bool:
    numbers_fit = all(isinstance(seal[name], int) for name in NUMBER_COLUMNS)
    return numbers_fit and all(isinstance(seal[name], str) for name in TEXT_COLUMNS) and seal["time"] is not None


def _passed_over(connection: Connection, last_id: int) -> Sequence[int]:
    """Entries up to the last one that is sealed that have no seal, or only that of one that was purged."""
    joined = ENTRIES.outerjoin(SEALS, SEALS.c.entry_id == ENTRIES.c.id)
    is_without = or_(SEALS.c.number.is_(None), SEALS.c.purged_time.is_not(None))
    statement = select(ENTRIES.c.id).select_from(joined).where(ENTRIES.c.id <= last_id, is_without)
    return connection.execute(statement.order_by(ENTRIES.c.id).limit(MAX_BREAKS)).scalars().all()
