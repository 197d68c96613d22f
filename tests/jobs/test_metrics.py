"""Metrics for Prometheus (docs/operations.md#health)."""

from __future__ import annotations

from app.sends.delivery.drain import drain
from tests.support.client import SENDS, Client
from tests.support.tenants import Tenant, new_email


def delivered(api: Client) -> float:
    """The count of sent emails in `/metrics` of this process."""
    wanted = 'tms_recipient_outcomes_total{outcome="sent",type="email"} '
    lines = [line for line in api.get("/metrics").text.splitlines() if line.startswith(wanted)]
    return float(lines[0].removeprefix(wanted)) if lines else 0.0


def test_outcomes_of_sends_are_counted(tenant: Tenant, api: Client) -> None:
    before = delivered(api)
    body = {
        "type": "email",
        "list_id": tenant.add_list(),
        "group_name": "g",
        "subject": "s",
        "body_text": "b",
        "recipients": [{"email": new_email()}, {"email": new_email()}],
    }
    assert api.post(SENDS, body).status_code == 202
    drain(tenant.services)
    assert delivered(api) == before + 2
