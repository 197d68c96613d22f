"""Seeding test keys and test webhooks, which belong to the test account (docs/testing.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.accounts.testing import refreshed_test_account
from app.seed.accounts import apply_keys
from app.seed.context import SeedContext
from app.seed.shape import located
from app.seed.webhooks import Urls, apply_webhooks

Entries = Sequence[Mapping[str, Any]]


def apply_tests(context: SeedContext, keys: Entries, webhooks: Entries, urls: Urls) -> None:
    """The keys and webhooks with `test: true`, once the test account has copies of everything as it is now. Where there
    is no such entry, nothing is done."""
    of_tests = replace(context, is_test=True)
    paths = [
        path
        for noun, entries in (("keys", keys), ("webhooks", webhooks))
        for path, _ in of_tests.entries(noun, entries)
    ]
    if not paths:
        return
    with located(paths[0], {"name": "test", "account": "test"}):
        account = refreshed_test_account(context.transaction, context.account)
    of_tests = replace(of_tests, account=account)
    apply_keys(of_tests, keys)
    apply_webhooks(of_tests, webhooks, urls)
