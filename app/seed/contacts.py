"""Seeding contacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from app.addresses import ADDRESS_KINDS, NormalizedAddress, normalize_address
from app.contacts.attributes import check_attributes
from app.contacts.upsert import upsert_contacts as bring
from app.db.models import List
from app.errors import ServiceError
from app.lists.find import get_list
from app.seed.shape import SeedError, located
from app.seed.target import Target

Described = Mapping[str, Any]


def upsert_contacts(
    target: Target, row: List, described: Sequence[Described], path: str, unsubscribers: Sequence[Described]
) -> None:
    """Contacts of a list, found by its unique identifier, also those of a system list.

    A contact that the file wants subscribed must not stand among the file's `unsubscribers`: the two would undo each
    other at every load.
    """
    if not described:
        return
    lst = get_list(target.transaction, target.account.id, row.id)
    stopped = _stopped(unsubscribers, row.name)
    drafts = []
    for index, one in enumerate(described):
        place = f"{path}.contacts[{index}]"
        draft, errors = check_attributes(lst, {name: _plain(value) for name, value in one.items()})
        with located(place):
            if errors:
                raise ServiceError.of(errors)
        _check_wishes(draft, stopped, place)
        drafts.append(draft)
    with located(path):
        brought = bring(target.transaction, lst, drafts, allow_system=True)
    target.report.created["contact"] += brought.created
    target.report.updated["contact"] += brought.updated


def _plain(value: Any) -> Any:
    """YAML knows dates, contacts have texts."""
    return value.isoformat() if isinstance(value, date) else value


def _stopped(unsubscribers: Sequence[Described], list_name: str | None) -> set[NormalizedAddress | None]:
    """The addresses that the file unsubscribes from the list."""
    concerned = [one for one in unsubscribers if one.get("list") in (None, list_name)]
    return {
        normalize_address(kind, one[kind]) for one in concerned for kind in ADDRESS_KINDS if one.get(kind) is not None
    }


def _check_wishes(draft: Described, stopped: set[NormalizedAddress | None], path: str) -> None:
    for kind, wanted in draft.get("subscribed", {}).items():
        if wanted and draft.get(kind) is not None and normalize_address(kind, draft[kind]) in stopped:
            raise SeedError(f"{path}.subscribed.{kind}", "is true, but the file names the address under unsubscribers")
