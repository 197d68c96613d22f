"""What the steps of loading one account of a seed file share: transaction, account, path and report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.db.database import Transaction
from app.db.models import Account
from app.seed.report import AccountReport
from app.services import Services


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
