"""Paths of automations in the API."""

from __future__ import annotations


def automation_path(automation_id: int) -> str:
    return f"/v1/automations/{automation_id}"


def run_path(automation_id: int, run_id: int) -> str:
    return f"{automation_path(automation_id)}/runs/{run_id}"
