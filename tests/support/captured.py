"""Captured messages of test accounts."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from app.clock import this_second
from app.db.models import CapturedMessage
from tests.support.tenants import Tenant, unique


def capture(tenant: Tenant, address: str, **values: Any) -> int:
    """A captured message, as a sender stores it."""
    columns = {
        "recipient_id": int(unique("r").rpartition("-")[2]) + 10**12,
        "is_copy": False,
        "uuid": str(uuid4()),
        "type": "email",
        "sender": "bounces@acme.example",
        "address": address.lower(),
        "subject": "Grüße",
        "content": "Subject: Grüße\r\n\r\nHello".encode(),
        "captured_time": this_second(),
        **values,
    }
    return tenant.add(CapturedMessage, **columns)
