"""Seeding the sending domains of an account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.accounts.domain_hosts import HOSTS, set_hosts
from app.accounts.domains import add_domain_without_keys
from app.accounts.signing_keys import import_key, make_missing_keys
from app.seed.context import SeedContext
from app.seed.shape import located


def apply_domains(context: SeedContext, entries: Sequence[Mapping[str, Any]]) -> None:
    """Sending domains, found by their name. They count as verified, and have DKIM keys: those of the file, and
    generated ones where there are none."""
    for index, entry in enumerate(entries):
        _apply_domain(context, entry, f"{context.path}.domains[{index}]")


def _apply_domain(context: SeedContext, entry: Mapping[str, Any], path: str) -> None:
    transaction, secret_key = context.transaction, context.services.settings.secret_key
    with located(path, {"domain": ""}):
        domain, created = add_domain_without_keys(transaction, context.account.id, entry["name"], trusted=True)
    updated = False
    for index, key in enumerate(entry.get("keys", [])):
        with located(f"{path}.keys[{index}]"):
            updated = import_key(transaction, domain, secret_key, key["selector"], key["private_key"]) or updated
    with located(path):
        hosts = {name: entry[name] for name in HOSTS if name in entry}
        updated = set_hosts(transaction, domain, hosts, by_operator=True) or updated
        updated = make_missing_keys(transaction, domain, secret_key, entry.get("selector")) or updated
    context.report.count("domain", created=created, updated=updated)
