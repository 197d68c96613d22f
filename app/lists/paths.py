"""Paths of lists and their contacts (docs/requests.md#links)."""

from __future__ import annotations

from app.ids import shown_id


def list_path(list_id: int) -> str:
    return f"/v1/lists/{shown_id(list_id)}"


def contacts_path(list_id: int) -> str:
    return f"{list_path(list_id)}/contacts"


def contact_path(list_id: int, contact_id: int) -> str:
    return f"{contacts_path(list_id)}/{contact_id}"
