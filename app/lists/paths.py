"""Paths of lists and their contacts (docs/requests.md#links). Cached: all contacts of a page are in one list."""

from __future__ import annotations

from functools import lru_cache

from app.ids import shown_id


@lru_cache(maxsize=1024)
def list_path(list_id: int) -> str:
    return f"/v1/lists/{shown_id(list_id)}"


@lru_cache(maxsize=1024)
def contacts_path(list_id: int) -> str:
    return f"{list_path(list_id)}/contacts"


def contact_path(list_id: int, contact_id: int) -> str:
    return f"{contacts_path(list_id)}/{contact_id}"
