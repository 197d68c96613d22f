"""Test accounts of accounts."""

from __future__ import annotations

from app.accounts.testing import refreshed_test_account
from app.db.models import Account
from tests.support.tenants import Tenant, add_key


def refreshed(tenant: Tenant) -> Tenant:
    """The test account with copies of what the account has now, and with a further test key."""
    with tenant.services.database.write() as transaction:
        live = transaction.get_one(Account, tenant.id)
        account = refreshed_test_account(transaction, live)
        made = Tenant(tenant.app, account.id, account.name, tenant.domain)
    made.tokens["standard"] = add_key(made, "standard")
    return made
