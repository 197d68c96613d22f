"""What the steps of loading one account of a seed file share: transaction, account, path and report."""

from __future__ import annotations

from dataclasses import dataclass

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
