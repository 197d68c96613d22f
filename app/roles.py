"""The roles of people who sign in by OpenID Connect, and which value of a claim gives which (docs/sign-in.md#roles).
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

OPERATOR_ROLE, MANAGER_ROLE, READER_ROLE = "operator", "manager", "reader"
ROLES = (OPERATOR_ROLE, MANAGER_ROLE, READER_ROLE)
"""From the one that may do the most."""
WILDCARD = "*"


class NamedGrant(NamedTuple):
    """A role, and the name of the account in which somebody has it; None for all accounts."""

    role: str
    account_name: str | None


class RoleRule(NamedTuple):
    """The value of a claim, and the role that it gives in the account of that name; in all accounts without one. An
    asterisk in the value stands for the name of the account."""

    value: str
    role: str
    account_name: str | None

    def grant_of(self, value: str) -> NamedGrant | None:
        """What a value of the claim gives by this rule; None for nothing."""
        if self.account_name != WILDCARD:
            return NamedGrant(self.role, self.account_name) if value == self.value else None
        start, _, end = self.value.partition(WILDCARD)
        is_match = value.startswith(start) and value.endswith(end) and len(value) > len(start) + len(end)
        return NamedGrant(self.role, value[len(start) : len(value) - len(end)]) if is_match else None


def parse_roles(text: str) -> tuple[RoleRule, ...]:
    """Rules such as `admins=operator, shop-team=manager:Shop, tms-*=reader:*`, separated by commas."""
    return tuple(_parse_rule(part.strip()) for part in text.split(","))


def _parse_rule(text: str) -> RoleRule:
    value, equals, role_and_account = text.rpartition("=")
    role, colon, account_name = (part.strip() for part in role_and_account.partition(":"))
    value = value.strip()
    if not equals or not value or role not in ROLES:
        raise ValueError(f"{text!r} must be VALUE=ROLE or VALUE=ROLE:ACCOUNT with one of the roles {', '.join(ROLES)}")
    if bool(colon) != bool(account_name):
        raise ValueError(f"{text!r} names no account after the colon")
    if role == OPERATOR_ROLE and account_name:
        raise ValueError(f"{text!r} names an account, but an operator has all of them")
    if role == MANAGER_ROLE and not account_name:
        raise ValueError(f"{text!r} must name the account that is managed, as in VALUE=manager:ACCOUNT")
    if value.count(WILDCARD) != (account_name == WILDCARD):
        raise ValueError(f"{text!r} must have one * in its value and * as its account, or none at all")
    return RoleRule(value, role, account_name or None)


def grants_of(rules: Iterable[RoleRule], values: Iterable[str]) -> Sequence[NamedGrant]:
    """What the values of a claim give: each account once with the role that may do the most, in the order of roles and
    names. An operator needs nothing else."""
    grants = {grant for value in values for rule in rules if (grant := rule.grant_of(value))}
    if any(grant.role == OPERATOR_ROLE for grant in grants):
        return [NamedGrant(OPERATOR_ROLE, None)]
    managed = {grant.account_name for grant in grants if grant.role == MANAGER_ROLE}
    kept = (grant for grant in grants if grant.role == MANAGER_ROLE or grant.account_name not in managed)
    return sorted(kept, key=lambda grant: (ROLES.index(grant.role), grant.account_name or ""))
