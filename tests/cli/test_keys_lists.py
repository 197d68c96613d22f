"""The list of mails that are sent by SMTP with a key (docs/smtp-submission.md#list-and-group)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.conftest import Cli
from tests.support.seeds import customers, write_seed
from tests.support.tenants import Tenant, unique


def test_a_key_gets_a_list_keeps_it_when_it_is_rotated_and_loses_it(cli: Cli, tenant: Tenant) -> None:
    first, second = tenant.add_list(), tenant.add_list()
    cli.json("keys", "create", "crm", "--level", "standard", "--list", str(first))
    assert cli.json("keys", "show", "crm")["list_id"] == first
    assert cli.json("keys", "update", "crm", "--list", str(second))["list_id"] == second
    cli.json("keys", "rotate", "crm")
    assert cli.json("keys", "show", "crm")["list_id"] == second
    assert cli.json("keys", "update", "crm", "--no-list")["list_id"] is None


def test_a_seed_file_gives_keys_their_lists(bare: Cli, tmp_path: Path) -> None:
    """Those of test keys are the lists of which the test account has copies."""
    name = unique("seeded")
    keys: list[dict[str, Any]] = [
        {"name": "shop", "access_level": "standard", "list": "Customers"},
        {"name": "tests", "access_level": "standard", "list": "Customers", "test": True},
    ]
    account = {"name": name, "keys": keys, "lists": [customers()]}
    file = write_seed(tmp_path / "seed.yaml", account)
    (first,) = bare.json("seed", str(file))["accounts"]
    list_id = first["lists"][0]["id"]
    for key, owner in (("shop", name), ("tests", f"{name} (test)")):
        assert bare.json("keys", "show", key, "--account", owner)["list_id"] == list_id
    keys[0]["list"] = None
    bare.json("seed", str(write_seed(tmp_path / "seed.yaml", account)))
    assert bare.json("keys", "show", "shop", "--account", name)["list_id"] is None
    keys[0]["list"] = "Nobody"
    refused = bare.refused("seed", str(write_seed(tmp_path / "seed.yaml", account)))
    assert refused.startswith("accounts[0].keys[0]")
    assert refused.endswith("the account has no list 'Nobody'")


def test_a_key_gets_no_list_of_another_account_and_no_unclear_one(
    cli: Cli, tenant: Tenant, other_tenant: Tenant
) -> None:
    cli.json("keys", "create", "crm", "--level", "standard")
    foreign = other_tenant.add_list()
    assert cli.refused("keys", "update", "crm", "--list", str(foreign)) == f"the account has no list {str(foreign)!r}"
    assert cli.refused("keys", "update", "crm") == "give either --list or --no-list"
    assert cli.json("keys", "show", "crm")["list_id"] is None
