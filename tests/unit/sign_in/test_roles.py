"""Which roles follow from the values of a claim (docs/sign-in.md#roles)."""

from __future__ import annotations

from typing import Any

import pytest

from app.roles import NamedGrant, grants_of, parse_roles
from app.sign_in.id_tokens import claim_at, values_of

RULES = parse_roles(
    "admins=operator, shop=manager:Shop, cn=ops=reader, audit=reader:Shop, team-*-x=manager:*, r/*=reader:*"
)
MANAGER_OF_SHOP, READER = NamedGrant("manager", "Shop"), NamedGrant("reader", None)


@pytest.mark.parametrize(
    ("values", "grants"),
    [
        ([], []),
        (["staff", "Admins", "admins "], []),
        (["admins"], [NamedGrant("operator", None)]),
        (["shop", "admins", "audit"], [NamedGrant("operator", None)]),
        (["shop", "audit"], [MANAGER_OF_SHOP]),
        (["cn=ops", "shop"], [MANAGER_OF_SHOP, READER]),
        (["audit", "cn=ops"], [READER, NamedGrant("reader", "Shop")]),
        (["team-Blog-x", "team-*-x"], [NamedGrant("manager", "*"), NamedGrant("manager", "Blog")]),
        (["team--x", "team-x", "xteam-a-x", "team-a-xx"], []),
        (["r/a/b", "r/"], [NamedGrant("reader", "a/b")]),
        (["shop", "shop"], [MANAGER_OF_SHOP]),
    ],
)
def test_values_give_roles(values: list[str], grants: list[NamedGrant]) -> None:
    assert grants_of(RULES, values) == grants


@pytest.mark.parametrize(
    ("claims", "path", "values"),
    [
        ({"groups": ["a", "b"]}, "groups", ["a", "b"]),
        ({"groups": "a"}, "groups", ["a"]),
        ({"groups": ["a", 7, None, {"b": 1}, ["c"]]}, "groups", ["a"]),
        ({"groups": {"a": True}}, "groups", []),
        ({"groups": True}, "groups", []),
        ({}, "groups", []),
        ({"realm": {"roles": ["a"]}}, "realm.roles", ["a"]),
        ({"realm": {"roles": ["a"]}, "realm.roles": ["b"]}, "realm.roles", ["b"]),
        ({"https://x.example/roles": ["a"]}, "https://x.example/roles", ["a"]),
        ({"realm": ["a"]}, "realm.roles", []),
        ({"realm": None}, "realm.roles", []),
        ({"groups": [str(number) for number in range(600)]}, "groups", [str(number) for number in range(500)]),
    ],
)
def test_a_claim_is_read_as_texts(claims: dict[str, Any], path: str, values: list[str]) -> None:
    assert values_of(claim_at(claims, path)) == values
