"""Seed files for tests: data written to a file and loaded as an operator would."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import yaml
from sqlalchemy import select

from app.db.models import Account, Base
from app.seed.load import load_seed
from app.seed.report import SeedReport
from app.services import Services

FIELDS = [
    {"name": "Email", "type": "Email"},
    {"name": "Mobile", "type": "Mobile Phone"},
    {"name": "First Name", "type": "First Name"},
    {"name": "Plan", "type": "Dropdown", "options": ["free", "gold"]},
    {"name": "Spend", "type": "Currency"},
    {"name": "Born", "type": "Date of Birth"},
    {"name": "Visit", "type": "Date Picker"},
]
SECRET = "0123456789abcdef0123456789abcdef"


def token_of(name: str) -> str:
    """A fixed token with 256 bits."""
    digest = hashlib.sha256(name.encode()).digest()
    return "tms_" + base64.urlsafe_b64encode(digest).decode().rstrip("=")


def write_seed(path: Path, *accounts: dict[str, Any]) -> Path:
    """Writes a seed file with these accounts."""
    path.write_text(yaml.safe_dump({"accounts": list(accounts)}, sort_keys=False, allow_unicode=True), "utf-8")
    return path


def load(services: Services, path: Path, *accounts: dict[str, Any]) -> SeedReport:
    """Writes the accounts to the file and loads it."""
    return load_seed(services, write_seed(path, *accounts))


def customers(**attributes: Any) -> dict[str, Any]:
    """A list with fields of many types."""
    return {"name": "Customers", "fields": FIELDS, **attributes}


def rows(services: Services, model: type[Base], name: str, *columns: str) -> list[tuple[Any, ...]]:
    """The columns of the account's rows, in the order of their ids."""
    owner = select(Account.id).where(Account.name == name).scalar_subquery()
    statement = select(*(getattr(model, column) for column in columns))
    statement = statement.where(model.account_id == owner).order_by(model.id)  # type: ignore[attr-defined]
    with services.database.read() as session:
        return [tuple(row) for row in session.execute(statement)]
