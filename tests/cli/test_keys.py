"""Rotating keys, and what becomes of names and former secrets (docs/requests.md#rotating-a-key)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from app.clock import now, timestamp
from app.db.models import ApiKey
from tests.cli.conftest import Cli
from tests.support.client import Client, check_error
from tests.support.tenants import Tenant, unique


def works(tenant: Tenant, token: str) -> bool:
    answer = Client(tenant.app, token).get("/v1/messages")
    if answer.status_code != 200:
        check_error(answer, 401, "api_key_invalid")
    return answer.status_code == 200


def created(cli: Cli, *options: str) -> str:
    return str(cli.json("keys", "create", "backend", "--level", "limited", *options)["token"])


def rotated(cli: Cli, *options: str) -> dict[str, Any]:
    made: dict[str, Any] = cli.json("keys", "rotate", "backend", *options)
    return made


def backends(cli: Cli) -> dict[str, dict[str, Any]]:
    """The keys that have or had the name."""
    return {row["name"]: row for row in cli.json("keys", "list") if row["name"].startswith("backend")}


def move_ends(tenant: Tenant, earlier: timedelta) -> None:
    """Moves the end of each rotated key back, as if that much time had passed since the rotations."""
    with tenant.services.database.write() as transaction:
        key_update = update(ApiKey).where(ApiKey.account_id == tenant.id, ApiKey.valid_until.is_not(None))
        for key in transaction.query(ApiKey).where(ApiKey.account_id == tenant.id, ApiKey.valid_until.is_not(None)):
            assert key.valid_until is not None
            transaction.execute(key_update.where(ApiKey.id == key.id).values(valid_until=key.valid_until - earlier))


def test_both_secrets_of_a_rotated_key_work_until_the_overlap_ends(cli: Cli, tenant: Tenant) -> None:
    old = created(cli)
    before = now()
    new = rotated(cli, "--overlap", "12h")
    assert [works(tenant, token) for token in (old, new["token"])] == [True, True]
    keys = backends(cli)
    assert list(keys) == ["backend", new["old_key"]]
    assert (keys["backend"]["valid_until"], keys["backend"]["access_level"]) == (None, "limited")
    end = keys[new["old_key"]]["valid_until"]
    assert end == new["old_key_valid_until"]
    assert timestamp(before + timedelta(hours=12)) <= end <= timestamp(now() + timedelta(hours=12))
    move_ends(tenant, timedelta(hours=12, seconds=1))
    assert [works(tenant, token) for token in (old, new["token"])] == [False, True]


def test_without_an_overlap_the_old_secret_ends_at_once(cli: Cli, tenant: Tenant) -> None:
    old = created(cli)
    new = rotated(cli, "--overlap", "0")
    assert [works(tenant, token) for token in (old, new["token"])] == [False, True]


def test_no_former_secret_works_longer_than_the_one_rotated_last(cli: Cli, tenant: Tenant) -> None:
    tokens = [created(cli)]
    tokens.append(rotated(cli, "--overlap", "1d")["token"])
    first_end = max(str(row["valid_until"] or "") for row in backends(cli).values())
    tokens.append(rotated(cli)["token"])
    ends = sorted(str(row["valid_until"]) for row in backends(cli).values() if row["valid_until"])
    assert ends[0] == first_end < ends[1]
    assert [works(tenant, token) for token in tokens] == [True, True, True]
    tokens.append(rotated(cli, "--overlap", "0")["token"])
    assert [works(tenant, token) for token in tokens] == [False, False, False, True]


def test_a_key_is_revoked_with_its_former_secrets_and_a_former_one_alone(cli: Cli, tenant: Tenant) -> None:
    first = created(cli)
    second = rotated(cli)
    third = rotated(cli)
    cli.text("keys", "revoke", second["old_key"])
    assert [works(tenant, token) for token in (first, second["token"], third["token"])] == [False, True, True]
    cli.text("keys", "revoke", "backend")
    assert [works(tenant, token) for token in (first, second["token"], third["token"])] == [False, False, False]


def test_a_revocation_is_taken_back_and_a_key_that_is_valid_is_refused(cli: Cli, tenant: Tenant) -> None:
    former, token = created(cli), rotated(cli)["token"]
    cli.text("keys", "revoke", "backend")
    assert [works(tenant, secret) for secret in (former, token)] == [False, False]
    assert cli.text("keys", "restore", "backend").splitlines()[0] == "restored key backend"
    assert [works(tenant, secret) for secret in (former, token)] == [True, True]
    assert cli.refused("keys", "restore", "backend") == "name: the key 'backend' is not revoked"


def test_the_name_of_a_revoked_key_can_be_used_again_and_its_row_stays(cli: Cli, tenant: Tenant) -> None:
    old = created(cli)
    cli.text("keys", "revoke", "backend")
    new = created(cli)
    assert [works(tenant, token) for token in (old, new)] == [False, True]
    keys = backends(cli)
    assert [row["revoked_time"] is None for row in keys.values()] == [True, False]
    (former,) = (row for row in keys.values() if row["revoked_time"])
    assert former["name"] == f"backend (id {former['id']})"


def test_only_a_key_in_use_can_be_rotated(cli: Cli) -> None:
    created(cli)
    old = rotated(cli)["old_key"]
    assert cli.refused("keys", "rotate", old) == "name: was already rotated; rotate 'backend'"
    cli.text("keys", "revoke", "backend")
    assert cli.refused("keys", "rotate", "backend") == "name: the key 'backend' is revoked; create another key"


@pytest.mark.parametrize("given", ["soon", "7", "-1d", "367d", "999999999w", "7 d"])
def test_an_overlap_is_a_duration_of_at_most_a_year(cli: Cli, given: str) -> None:
    created(cli)
    assert cli.refused("keys", "rotate", "backend", "--overlap", given).startswith("Invalid value for '--overlap': ")
    assert len(backends(cli)) == 1


def test_a_long_name_keeps_room_for_the_id(cli: Cli) -> None:
    name = "n" * 255
    cli.text("keys", "create", name, "--level", "report")
    old = cli.json("keys", "rotate", name)["old_key"]
    assert len(old) <= 255
    assert cli.json("keys", "show", old)["name"] == old


def test_test_keys_are_rotated_in_their_test_account(bare: Cli, cli: Cli, tenant: Tenant) -> None:
    made = cli.json("keys", "create", "ci", "--level", "report", "--test")
    new = bare.json("keys", "rotate", "ci", "--account", made["account"])
    assert new["token"] != made["token"]
    groups = [Client(tenant.app, token).get("/v1/transactional-groups") for token in (made["token"], new["token"])]
    assert [response.status_code for response in groups] == [200, 200]
    assert {row["test"] for row in bare.json("keys", "list", "--account", made["account"])} == {True}


def test_a_seed_file_with_a_former_token_changes_nothing(bare: Cli, tmp_path: Any) -> None:
    name, token = unique("seeded"), f"tms_{unique('t')}".ljust(60, "x")
    file = tmp_path / "seed.yaml"
    key = f"{{name: backend, access_level: report, token: {token}}}"
    file.write_text(f"accounts: [{{name: {name}, keys: [{key}]}}]")
    bare.text("seed", str(file))
    bare.text("keys", "rotate", "backend", "--account", name)
    before = bare.json("keys", "list", "--account", name)
    assert "key backend now has another token and keeps it" in bare.text("seed", str(file))
    assert bare.json("keys", "list", "--account", name) == before
