"""Paths of lists and their contacts (docs/requests.md#links)."""

from __future__ import annotations


def list_path(list_id: int) -> str:
    return f"/v1/lists/{list_id}"


def contacts_path(list_id: int) -> str:
    return f"/v1/lists/{list_id}/contacts"


def contact_path(list_id: int, contact_id: int) -> str:
    return f"/v1/lists/{list_id}/contacts/{contact_id}"
