"""Paths of automations in the API."""

from __future__ import annotations


def automation_path(automation_id: int) -> str:
    return f"/v1/automations/{automation_id}"
