"""What `flask status` finds, in words (docs/health.md#status)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest

from app.infrastructure.metric_kinds import Labels
from app.infrastructure.shared_counts import Counts
from app.maintenance.alerts import ALERTS, Finding
from app.maintenance.figures import ROLES, STATES, STATES_WITHOUT_AGE, TYPES, Figures
from app.maintenance.findings import HostState, database_down, findings
from app.maintenance.words import lasting
from app.sends.outcomes.relay_refusals import ShownRefusal
from tests.support.cases import each


def idle() -> Figures:
    """The figures of an installation in which all processes run and nothing is left to do."""
    entries: dict[Labels, float] = dict.fromkeys(product(("live", "test"), TYPES, STATES), 0.0)
    return {
        "tms_queue_entries": entries,
        "tms_queue_oldest_seconds": {key: 0.0 for key in entries if key[2] not in STATES_WITHOUT_AGE},
        "tms_webhooks": {("all",): 2.0, ("behind",): 0.0},
        "tms_events_oldest_seconds": {(): 0.0},
        "tms_automation_runs": {("late",): 0.0},
        "tms_processes": {key: float(key[1] == "live") for key in product(ROLES, ("live", "silent"))},
        "tms_host_heartbeat_age_seconds": {("a",): 4.0, ("b",): 120.0},
        "tms_clock_difference_seconds": {("a",): 1.9, ("b",): -20.0},
        "tms_purge_overdue_seconds": {("content",): 10_800.0, ("recipients",): 0.0},
        "tms_schema_info": {("0034", "0034", "ok"): 1.0},
    }


def test_an_idle_installation_has_none() -> None:
    assert findings(idle(), redis_up=True) == []


@each(
    ("changes", "expected"),
    [
        (
            {
                "tms_queue_entries": {("live", "sms", "due"): 3},
                "tms_queue_oldest_seconds": {("live", "sms", "due"): 303},
            },
            Finding("TmsMessagesWait", "due: 3 sms messages, the oldest for 5 min 3 s"),
        ),
        (
            {
                "tms_queue_entries": {("live", "email", "uncertain"): 1},
                "tms_queue_oldest_seconds": {("live", "email", "uncertain"): 7200},
            },
            Finding("TmsMessagesUncertain", "uncertain: 1 email message, the oldest for 2 h"),
        ),
        (
            {"tms_queue_entries": {("live", "email", "held"): 12}},
            Finding("TmsMessagesHeld", "held after a restore: 12 email messages"),
        ),
        (
            {"tms_processes": {("sends", "live"): 0}},
            Finding("TmsProcessMissing", "no process with the role sends is alive: no message leaves"),
        ),
        (
            {"tms_processes": {("api", "live"): 0}},
            Finding("TmsApiDown", "no process with the role api is alive: requests are not answered"),
        ),
        (
            {"tms_processes": {("webhooks", "silent"): 1}},
            Finding("TmsProcessSilent", "1 process with the role webhooks fell silent: killed or hanging"),
        ),
        (
            {"tms_host_heartbeat_age_seconds": {("b",): 7200.0}},
            Finding("TmsHostLost", "the host b is lost: its last process fell silent 2 h ago without being stopped"),
        ),
        (
            {"tms_clock_difference_seconds": {("b",): -95.2}},
            Finding(
                "TmsClockWrong",
                "the clock of the host b is 1 min 35 s behind that of the database: no process can be started there",
            ),
        ),
        (
            {"tms_purge_overdue_seconds": {("content",): 90_000.0}},
            Finding("TmsPurgingLate", "purging of content has been overdue for 1 d 1 h"),
        ),
        (
            {"tms_events_oldest_seconds": {(): 90_000}, "tms_webhooks": {("behind",): 1}},
            Finding("TmsWebhooksBehind", "events wait for 1 webhook, the oldest for 1 d 1 h"),
        ),
        (
            {"tms_automation_runs": {("late",): 4}},
            Finding("TmsAutomationsLate", "late: 4 automation runs"),
        ),
    ],
)
def test_a_condition_is_found(changes: dict[str, dict[Labels, float]], expected: Finding) -> None:
    figures: Figures = {name: {**values, **changes.get(name, {})} for name, values in idle().items()}
    assert findings(figures, redis_up=True) == [expected]


def test_what_is_below_its_limit_or_of_a_test_account_is_none() -> None:
    quiet: dict[Labels, float] = {("live", "email", "due"): 60.0, ("test", "email", "due"): 9000.0}
    figures = idle()
    figures["tms_queue_oldest_seconds"] = {**figures["tms_queue_oldest_seconds"], **quiet}
    assert findings(figures, redis_up=True) == []


@pytest.mark.parametrize(
    ("revision", "state", "words"),
    [
        ("", "missing", "the database is not migrated yet, this version needs"),
        ("0033", "older", "the database is at revision 0033, this version needs"),
        ("9000", "too new", "the database is at revision 9000, this version needs 0034: install a newer version"),
        ("1975ea83b712", "foreign", "the database is at revision 1975ea83b712, which this service does not have"),
    ],
)
def test_a_schema_that_does_not_fit_is_found_though_there_are_no_other_figures(
    revision: str, state: str, words: str
) -> None:
    figures: Figures = {"tms_schema_info": {(revision, "0034", state): 1.0}}
    misfit, redis_finding = findings(figures, redis_up=False)
    assert (misfit.alert, redis_finding.alert) == ("TmsSchemaDoesNotFit", "TmsRedisDown")
    assert misfit.words.startswith(words)


@pytest.mark.parametrize("state", ["ok", "pending", "newer"])
def test_a_schema_on_which_this_code_works_is_none(state: str) -> None:
    assert findings(idle() | {"tms_schema_info": {("0035", "0034", state): 1.0}}, redis_up=True) == []


def test_what_only_this_host_knows_is_found() -> None:
    on_host = HostState({"relay": 2, "other": 0}, journal_bytes=250_000_000)
    set_aside = "transport relay: 2 workers of this host could not send over it and switched to others"
    journals = "the journals of this host have 250 MB: results are not written to the database"
    assert findings(idle(), redis_up=True, on_host=on_host) == [
        Finding("TmsTransportSetAside", set_aside),
        Finding("TmsJournalGrows", journals),
    ]
    assert findings(idle(), redis_up=True, on_host=HostState({"relay": 0}, 100_000_000)) == []


def grown(name: str, value: float, **labels: str) -> Counts:
    """A count that has grown by so much."""
    return {(name, tuple(sorted(labels.items()))): value}


RECENT = [
    (
        "TmsRequestsFail",
        {
            **grown("tms_http_requests_total", 98, status="202"),
            **grown("tms_http_requests_total", 2, status="503"),
        },
        "2 % of the requests of the last five minutes failed",
    ),
    (
        "TmsRequestsSlow",
        {
            **grown("tms_http_request_seconds_bucket", 90, le="1.0"),
            **grown("tms_http_request_seconds_bucket", 100, le="2.5"),
            **grown("tms_http_request_seconds_bucket", 100, le="+Inf"),
        },
        "one request in a hundred takes longer than a second",
    ),
    (
        "TmsConnectionsExhausted",
        grown("tms_database_errors_total", 3, reason="pool"),
        "3 requests of the last five minutes found no free connection to the database",
    ),
    (
        "TmsHandoverSlow",
        {
            **grown("tms_handover_seconds_bucket", 50, account_class="live", type="sms", le="60.0"),
            **grown("tms_handover_seconds_bucket", 100, account_class="live", type="sms", le="300.0"),
            **grown("tms_handover_seconds_bucket", 100, account_class="live", type="sms", le="+Inf"),
        },
        "one sms message in twenty reaches its relay or gateway later than 1 min",
    ),
    (
        "TmsRelayUnreachable",
        grown("tms_transport_replies_total", 4, type="email", transport="default", reply="none"),
        "transport default accepts no email message: 4 attempts got no answer",
    ),
    (
        "TmsDeferralsHigh",
        {
            **grown("tms_recipient_outcomes_total", 15, account_class="live", type="email", outcome="sent"),
            **grown("tms_recipient_outcomes_total", 6, account_class="live", type="email", outcome="deferred"),
        },
        "28.6 % of the attempts to send email messages in the last quarter of an hour were deferred",
    ),
    (
        "TmsBouncesHigh",
        {
            **grown("tms_recipient_outcomes_total", 95, account_class="live", type="email", outcome="sent"),
            **grown("tms_recipient_outcomes_total", 6, account_class="live", type="email", outcome="bounced"),
        },
        "5.94 % of the attempts to send email messages in the last hour bounced",
    ),
    (
        "TmsWebhookFailedForADay",
        grown("tms_webhook_outages_total", 1),
        "in the last hour, 1 webhook reached a whole day of failures",
    ),
]
"""Alert -> what grows in its window so that it holds, and the words."""


@each(("alert", "growth", "words"), RECENT)
def test_what_was_counted_in_the_last_minutes_is_found(alert: str, growth: Counts, words: str) -> None:
    on_host = HostState(growths={ALERTS[alert].window: growth})
    assert findings(idle(), redis_up=True, on_host=on_host) == [Finding(alert, words)]
    elsewhere = {window: growth for window in (1, 2) if window != ALERTS[alert].window}
    assert findings(idle(), redis_up=True, on_host=HostState(growths=elsewhere)) == []


@each(
    "growth",
    [
        {**grown("tms_http_requests_total", 99, status="202"), **grown("tms_http_requests_total", 1, status="503")},
        {
            **grown("tms_http_request_seconds_bucket", 99, le="1.0"),
            **grown("tms_http_request_seconds_bucket", 100, le="+Inf"),
        },
        {
            **grown("tms_transport_replies_total", 9, type="email", transport="default", reply="none"),
            **grown("tms_transport_replies_total", 1, type="email", transport="default", reply="accepted"),
        },
        grown("tms_recipient_outcomes_total", 20, account_class="live", type="email", outcome="deferred"),
        grown("tms_recipient_outcomes_total", 999, account_class="test", type="email", outcome="bounced"),
        grown("tms_database_errors_total", 3, reason="unavailable"),
    ],
)
def test_what_stays_within_the_limits_is_no_finding(growth: Counts) -> None:
    growths = {alert.window: growth for alert in ALERTS.values()}
    assert findings(idle(), redis_up=True, on_host=HostState(growths=growths)) == []


@each(
    ("alert", "age", "words"),
    [
        ("TmsSchedulerDoesNotLook", 121, "the scheduler last looked for due work 2 min 1 s ago: retries wait"),
        ("TmsCleaningLate", 10_801, "the last cleaning was completed 3 h 1 s ago: tables grow"),
        ("TmsBackupOld", 129_660, "the last complete backup was made 1 d 12 h ago"),
    ],
)
def test_what_was_not_done_for_too_long_is_found(alert: str, age: float, words: str) -> None:
    late, in_time = (HostState(ages={alert: seconds}) for seconds in (age, ALERTS[alert].limit))
    assert findings(idle(), redis_up=True, on_host=late) == [Finding(alert, words)]
    assert findings(idle(), redis_up=True, on_host=in_time) == []


def test_what_cannot_wait_until_the_morning_comes_first() -> None:
    figures = idle() | {"tms_automation_runs": {("late",): 1.0}}
    on_host = HostState({"relay": 2}, growths={300: RECENT[4][1]})
    alerts = [finding.alert for finding in findings(figures, redis_up=False, on_host=on_host)]
    assert alerts == ["TmsRelayUnreachable", "TmsRedisDown", "TmsTransportSetAside", "TmsAutomationsLate"]


def test_every_alert_is_found_by_a_case_of_this_module() -> None:
    """So "all is well" means that the condition of no alert holds."""
    tested = set(re.findall(r'"(Tms\w+)"', Path(__file__).read_text("utf-8")))
    assert tested == set(ALERTS)


def test_a_relay_that_refuses_everything_of_an_account_is_found() -> None:
    moment = datetime(2026, 5, 1, tzinfo=UTC)
    refusal = ShownRefusal(5, "Acme", "default", "554 5.7.1 Relay access denied", 0, moment, moment, moment, None)
    (finding,) = findings(idle(), redis_up=True, refusals=[refusal])
    assert finding == Finding("TmsRelayRefuses", refusal.words())


def test_a_database_that_does_not_answer_is_told_once() -> None:
    assert database_down("connection refused").alert == "TmsDatabaseDown"
    silent = "the database does not answer, so requests are refused and senders wait"
    assert database_down("the database has not answered in time").words == silent
    assert database_down("connection refused").words == f"{silent}: connection refused"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (59.6, "1 min"), (61, "1 min 1 s"), (3600, "1 h"), (90_061, "1 d 1 h")]
)
def test_a_duration_is_told_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert lasting(seconds) == words
