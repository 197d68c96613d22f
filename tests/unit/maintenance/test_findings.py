"""What `flask status` finds, in words (docs/cli.md#status)."""

from __future__ import annotations

from itertools import product

import pytest

from app.infrastructure.metric_kinds import Labels
from app.maintenance.figures import ROLES, STATES, TYPES, WITHOUT_AGE, Figures
from app.maintenance.findings import Finding, findings, lasting


def idle() -> Figures:
    """The figures of an installation in which all processes run and nothing is left to do."""
    entries: dict[Labels, float] = dict.fromkeys(product(("live", "test"), TYPES, STATES), 0.0)
    return {
        "tms_queue_entries": entries,
        "tms_queue_oldest_seconds": {key: 0.0 for key in entries if key[2] not in WITHOUT_AGE},
        "tms_webhooks": {("all",): 2.0, ("behind",): 0.0},
        "tms_events_oldest_seconds": {(): 0.0},
        "tms_automation_runs": {("late",): 0.0},
        "tms_processes": {key: float(key[1] == "live") for key in product(ROLES, ("live", "silent"))},
        "tms_schema_info": {("0034", "0034", "ok"): 1.0},
    }


def test_an_idle_installation_has_none() -> None:
    assert findings(idle(), redis_up=True) == []


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        (
            {
                "tms_queue_entries": {("live", "sms", "due"): 3},
                "tms_queue_oldest_seconds": {("live", "sms", "due"): 303},
            },
            Finding("TmsMessagesWait", "3 of sms are due, the oldest for 5 min 3 s"),
        ),
        (
            {"tms_queue_oldest_seconds": {("live", "email", "uncertain"): 7200}},
            Finding("TmsMessagesUncertain", "0 of email are uncertain, for up to 2 h"),
        ),
        (
            {"tms_queue_entries": {("live", "email", "held"): 12}},
            Finding("TmsMessagesHeld", "12 of email are held after a restore"),
        ),
        (
            {"tms_processes": {("sends", "live"): 0}},
            Finding("TmsProcessMissing", "no process of sends shows a sign of life: no message leaves"),
        ),
        (
            {"tms_processes": {("api", "live"): 0}},
            Finding("TmsApiDown", "no process of api shows a sign of life: requests are not answered"),
        ),
        (
            {"tms_processes": {("webhooks", "silent"): 1}},
            Finding("TmsProcessSilent", "1 of webhooks: killed, or hanging"),
        ),
        (
            {"tms_events_oldest_seconds": {(): 90_000}, "tms_webhooks": {("behind",): 1}},
            Finding("TmsWebhooksBehind", "1 webhooks are behind, the oldest event waits for 1 d 1 h"),
        ),
        (
            {"tms_automation_runs": {("late",): 4}},
            Finding("TmsAutomationsLate", "4 runs of automations are late"),
        ),
    ],
)
def test_a_condition_is_found(changes: dict[str, dict[Labels, float]], found: Finding) -> None:
    shown: Figures = {name: {**values, **changes.get(name, {})} for name, values in idle().items()}
    assert findings(shown, redis_up=True) == [found]


def test_what_is_below_its_limit_or_of_a_test_account_is_none() -> None:
    quiet: dict[Labels, float] = {("live", "email", "due"): 60.0, ("test", "email", "due"): 9000.0}
    shown = idle()
    shown["tms_queue_oldest_seconds"] = {**shown["tms_queue_oldest_seconds"], **quiet}
    assert findings(shown, redis_up=True) == []


def test_a_schema_that_does_not_fit_and_a_redis_that_is_away_are_found() -> None:
    shown = idle() | {"tms_schema_info": {("0033", "0034", "older"): 1.0}}
    assert [one.alert for one in findings(shown, redis_up=False)] == ["TmsSchemaDoesNotFit", "TmsRedisDown"]


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (59.6, "1 min"), (61, "1 min 1 s"), (3600, "1 h"), (90_061, "1 d 1 h")]
)
def test_a_duration_is_told_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert lasting(seconds) == words
