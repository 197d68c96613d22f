"""Report of a loaded seed file: counts for people, ids and new tokens for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.db.database import Transaction
from app.db.models import Account
from app.db.models.base import Base
from app.services import Services


@dataclass(slots=True, kw_only=True)
class Changes:
    """Noun -> how many rows were created, and how many changed."""

    created: Counter[str] = field(default_factory=Counter)
    updated: Counter[str] = field(default_factory=Counter)

    def count(self, noun: str, *, created: bool, updated: bool = False) -> None:
        """Counts one row of a noun."""
        self.created[noun] += created
        self.updated[noun] += updated and not created

    @property
    def total(self) -> int:
        """The number of rows that were created or changed."""
        return self.created.total() + self.updated.total()

    @property
    def in_words(self) -> str:
        """The counts, such as `2 lists created, 1 key changed`; empty if there are none."""
        done = ((self.created, "created"), (self.updated, "changed"))
        return ", ".join(
            f"{_count_words(count, noun)} {word}" for counts, word in done for noun, count in counts.items() if count
        )


def _count_words(count: int, noun: str) -> str:
    plural = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count} {noun}{plural}"


@dataclass(slots=True)
class AccountReport(Changes):
    """One account of the file. The items are `{id, name}` and so on; a key has `token` only if it was generated
    here."""

    id: int
    name: str
    keys: list[dict[str, Any]] = field(default_factory=list)
    lists: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    webhooks: list[dict[str, Any]] = field(default_factory=list)
    automations: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Notes for the operator, one line each."""

    def as_json(self) -> dict[str, Any]:
        """The form of `--json`."""
        return {
            "id": self.id,
            "name": self.name,
            "keys": self.keys,
            "lists": self.lists,
            "messages": self.messages,
            "webhooks": self.webhooks,
            "automations": self.automations,
        }

    def as_lines(self) -> list[str]:
        """The form for people."""
        lines = [f"{self.name} (id {self.id}): {self.in_words or 'nothing to change'}", *self.notes]
        lines += [f"  key {key['name']}, shown once: {key['token']}" for key in self.keys if "token" in key]
        for webhook in self.webhooks:
            for secret in webhook.get("secrets", ()):
                lines.append(f"  secret {secret['id']} of {webhook['url']}, shown once: {secret['secret']}")
        return lines


@dataclass(slots=True)
class SeedReport:
    """The changes, account by account, in the order of the file, and those of the installation."""

    accounts: list[AccountReport] = field(default_factory=list)
    installation: Changes = field(default_factory=Changes)
    """Transports and routes, which belong to no account."""

    @property
    def changes(self) -> int:
        """The number of rows that were created or changed; 0 if the database was already in that state."""
        return sum(changes.total for changes in (self.installation, *self.accounts))

    def as_json(self) -> dict[str, Any]:
        """The form of `--json`."""
        return {"accounts": [account.as_json() for account in self.accounts]}

    def as_lines(self) -> list[str]:
        """The form for people."""
        lines = [line for account in self.accounts for line in account.as_lines()]
        return [*lines, f"installation: {done}"] if (done := self.installation.in_words) else lines


# What the steps of loading one account of a seed file share: transaction, account, path and report.


@dataclass(frozen=True, slots=True)
class SeedContext:
    """One account of the file, in the transaction of the whole file."""

    services: Services
    transaction: Transaction
    account: Account
    path: str
    """Path of the account in the file, such as `accounts[0]`."""
    report: AccountReport
    is_test: bool = False
    """Whether `account` is the test account of the one in the file (docs/testing.md)."""

    def entries(self, noun: str, entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The entries that are of this account, by `test`, each with its path in the file."""
        for index, entry in enumerate(entries):
            if entry.get("test", False) is self.is_test:
                yield f"{self.path}.{noun}[{index}]", entry

    @property
    def mark(self) -> dict[str, Any]:
        """What the report says of keys and webhooks of tests."""
        return {"test": True} if self.is_test else {}


def columns_in(entry: Mapping[str, Any], model: type[Base]) -> dict[str, Any]:
    """What an entry says of columns of the model; its other keys are applied by themselves."""
    return {key: value for key, value in entry.items() if key in model.__table__.columns}
