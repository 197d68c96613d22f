"""The alerts: for each the limits of its rule in docs/monitoring/alerts.yml, the command that shows more, and the page
of the console. What `flask status` and the console find, and what Prometheus tells, are the conditions of this list.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PAGE, TICKET = "page", "ticket"
"""A page wakes somebody, a ticket can wait until the morning."""


class Alert(NamedTuple):
    """An alert. `limit` is the number beyond which its condition holds; where that is a share of something, the alert
    needs more than `minimum` of it. `window` are the last seconds in which is counted."""

    severity: str
    limit: float = 0.0
    minimum: float = 0.0
    window: int = 0
    command: str | None = None
    page: str | None = None


class Finding(NamedTuple):
    """The alert whose condition holds, and what is the matter."""

    alert: str
    words: str


ALERTS: Mapping[str, Alert] = {
    "TmsApiDown": Alert(PAGE),
    "TmsDatabaseDown": Alert(PAGE, command="db current"),
    "TmsSchemaDoesNotFit": Alert(PAGE, command="db upgrade"),
    "TmsRedisDown": Alert(TICKET),
    "TmsProcessMissing": Alert(PAGE),
    "TmsProcessSilent": Alert(TICKET),
    "TmsHostLost": Alert(TICKET, limit=120.0, command="status"),
    "TmsClockWrong": Alert(TICKET, limit=20.0),
    "TmsSchedulerDoesNotLook": Alert(PAGE, limit=120.0),
    "TmsCleaningLate": Alert(TICKET, limit=10_800.0),
    "TmsPurgingLate": Alert(TICKET, limit=10_800.0),
    "TmsBackupOld": Alert(TICKET, limit=129_600.0),
    "TmsRequestsFail": Alert(PAGE, limit=0.01, window=300),
    "TmsRequestsSlow": Alert(TICKET, limit=1.0, window=600),
    "TmsConnectionsExhausted": Alert(TICKET, window=300),
    "TmsMessagesWait": Alert(PAGE, limit=60.0, page="/console/queues"),
    "TmsHandoverSlow": Alert(TICKET, limit=60.0, window=600, page="/console/queues"),
    "TmsRelayUnreachable": Alert(PAGE, window=300, command="transports list", page="/console/queues"),
    "TmsRelayRefuses": Alert(PAGE, page="/console/queues"),
    "TmsTransportSetAside": Alert(TICKET, command="transports list", page="/console/queues"),
    "TmsDeferralsHigh": Alert(TICKET, limit=0.2, minimum=20.0, window=900, page="/console/queues"),
    "TmsBouncesHigh": Alert(TICKET, limit=0.05, minimum=100.0, window=3600, page="/console/messages?state=bounced"),
    "TmsMessagesUncertain": Alert(
        TICKET, limit=3600.0, command="sends list --state uncertain", page="/console/messages?state=uncertain"
    ),
    "TmsMessagesHeld": Alert(TICKET, command="holds list", page="/console/holds"),
    "TmsJournalGrows": Alert(TICKET, limit=100_000_000.0),
    "TmsWebhooksBehind": Alert(TICKET, limit=900.0, command="webhooks list"),
    "TmsWebhookFailedForADay": Alert(TICKET, window=3600, command="webhooks list"),
    "TmsAutomationsLate": Alert(TICKET, command="automations list", page="/console/automations"),
}
"""Name -> the alert, in the order of the runbook (docs/monitoring/alerts.md)."""
