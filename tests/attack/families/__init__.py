"""The families of attacks, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.attack.families import (
    console,
    floods,
    forwarded,
    holding,
    http,
    inbound,
    injection,
    isolation,
    names,
    people,
    permissions,
    secrets,
    slow,
    ssrf,
    tokens,
)
from tests.attack.stage import Stage
from tests.attack.tally import Case


@dataclass(frozen=True, slots=True)
class Family:
    """The attacks, and the installations that they need: False is the ordinary one, True the strict one. `in_ci` are
    those on which the short form tries them, unless it is told which families to try."""

    attack: Callable[[Stage], Iterator[Case]]
    stages: tuple[bool, ...] = (False,)
    in_ci: tuple[bool, ...] = (False, True)


FAMILIES = {
    "isolation": Family(isolation.attack),
    "names": Family(names.attack, in_ci=()),
    "ssrf": Family(ssrf.attack, (False, True)),
    "forwarded": Family(forwarded.attack, (False, True)),
    "http": Family(http.attack),
    "injection": Family(injection.attack),
    "tokens": Family(tokens.attack),
    "floods": Family(floods.attack),
    "slow": Family(slow.attack),
    "holding": Family(holding.attack, in_ci=()),
    "inbound": Family(inbound.attack, in_ci=()),
    "secrets": Family(secrets.attack, in_ci=()),
    "permissions": Family(permissions.attack),
    "people": Family(people.attack),
    "console": Family(console.attack, (False, True), in_ci=(True,)),
}
