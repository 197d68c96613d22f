"""The list of mails that are sent by SMTP with a key (docs/smtp-submission.md#list-and-group)."""

from __future__ import annotations

from tests.cli.conftest import Cli
from tests.support.tenants import Tenant


def test_a_key_gets_a_list_keeps_it_when_it_is_rotated_and_loses_it(cli: Cli, tenant: Tenant) -> None:
    first, second = tenant.add_list(), tenant.add_list()
    cli.json("keys", "create", "crm", "--level", "standard", "--list", str(first))
    assert cli.json("keys", "show", "crm")["list_id"] == first
    assert cli.json("keys", "update", "crm", "--list", str(second))["list_id"] == second
    cli.json("keys", "rotate", "crm")
    assert cli.json("keys", "show", "crm")["list_id"] == second
    assert cli.json("keys", "update", "crm", "--no-list")["list_id"] is None


def test_a_key_gets_no_list_of_another_account_and_no_unclear_one(
    cli: Cli, tenant: Tenant, other_tenant: Tenant
) -> None:
    cli.json("keys", "create", "crm", "--level", "standard")
    foreign = other_tenant.add_list()
    assert cli.refused("keys", "update", "crm", "--list", str(foreign)) == f"the account has no list {str(foreign)!r}"
    assert cli.refused("keys", "update", "crm") == "give either --list or --no-list"
    assert cli.json("keys", "show", "crm")["list_id"] is None
