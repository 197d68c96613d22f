"""The alert rules fire when their condition lasts, and end with it: `promtool` runs them over series of samples."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "docs" / "monitoring" / "alerts.yml"
EVERY = "30s"
GROUPS = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
ALERTS = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}

LIVE = 'account_class="live", type="email"'
HANDED_OVER = f"tms_handover_seconds_bucket{{{LIVE}, le="
REQUESTS = 'tms_http_requests_total{instance="a", status='
CASES: dict[str, dict[str, str]] = {
    "TmsApiDown": {'up{job="tms", instance="a"}': "0x20 1x200"},
    "TmsDatabaseDown": {'tms_database_up{instance="a"}': "0x20 1x200"},
    "TmsSchemaDoesNotFit": {
        'tms_schema_info{instance="a", state="older", revision="0034", needed="0035"}': "1x20 _x200",
        'tms_schema_info{instance="a", state="ok", revision="0035", needed="0035"}': "_x21 1x200",
    },
    "TmsRedisDown": {'tms_redis_up{instance="a"}': "0x20 1x200"},
    "TmsProcessMissing": {
        'tms_processes{instance="a", role="sends", state="live"}': "0x20 1x200",
        'tms_processes{instance="a", role="inbound", state="live"}': "0x220",
    },
    "TmsProcessSilent": {'tms_processes{instance="a", role="sends", state="silent"}': "1x20 0x200"},
    "TmsHostLost": {'tms_host_heartbeat_age_seconds{instance="a", host="b"}': "121x20 0x200"},
    "TmsClockWrong": {
        'tms_clock_difference_seconds{instance="a", host="a"}': "-30x20 1x200",
        'tms_clock_difference_seconds{instance="a", host="b"}': "19x220",
    },
    "TmsSchedulerDoesNotLook": {
        'tms_sweep_timestamp_seconds{instance="a", sweep="queues"}': "0x20 630+30x200",
    },
    "TmsCleaningLate": {
        'tms_sweep_timestamp_seconds{instance="a", sweep="cleaning"}': "-14400x20 0+30x200",
    },
    "TmsPurgingLate": {'tms_purge_overdue_seconds{instance="a", stage="content"}': "90000x190 0x60"},
    "TmsBackupOld": {
        'tms_backup_timestamp_seconds{instance="a", result="done"}': "-129601x20 0+30x200",
        'tms_backup_timestamp_seconds{instance="a", result="failed"}': "0+30x220",
    },
    "TmsRequestsFail": {
        f'{REQUESTS}"202"}}': "0+100x220",
        f'{REQUESTS}"500"}}': "0+2x20 40x200",
        'tms_http_requests_total{route="/healthz", status="200"}': "0+9000x220",
    },
    "TmsRequestsSlow": {
        'tms_http_request_seconds_bucket{le="1"}': "0+90x30 2700+100x200",
        'tms_http_request_seconds_bucket{le="2.5"}': "0+100x230",
        'tms_http_request_seconds_bucket{le="+Inf"}': "0+100x230",
        'tms_http_request_seconds_bucket{route="/readyz", le="1"}': "0+9000x230",
        'tms_http_request_seconds_bucket{route="/readyz", le="+Inf"}': "0+9000x230",
    },
    "TmsConnectionsExhausted": {
        'tms_database_errors_total{instance="a", reason="pool"}': "0+1x20 20x200",
        'tms_database_errors_total{instance="a", reason="other"}': "0+1x220",
    },
    "TmsMessagesWait": {
        f'tms_queue_oldest_seconds{{instance="a", {LIVE}, state="due"}}': "61x20 60x200",
        'tms_queue_oldest_seconds{instance="a", account_class="test", type="email", state="due"}': "900x220",
    },
    "TmsHandoverSlow": {
        f'{HANDED_OVER}"60"}}': "0+90x30 2700+100x200",
        f'{HANDED_OVER}"300"}}': "0+100x230",
        f'{HANDED_OVER}"+Inf"}}': "0+100x230",
    },
    "TmsRelayUnreachable": {
        'tms_transport_replies_total{type="email", transport="default", reply="none"}': "0+1x220",
        'tms_transport_replies_total{type="email", transport="default", reply="accepted"}': "5x20 6+1x200",
    },
    "TmsRelayRefuses": {
        'tms_relay_refused_accounts{instance="a", transport="default", reply="554 5.7.1 denied"}': "1x20 _x200",
    },
    "TmsTransportSetAside": {'tms_transport_set_aside{instance="a", transport="relay"}': "2x20 0x200"},
    "TmsDeferralsHigh": {
        f'tms_recipient_outcomes_total{{{LIVE}, outcome="deferred"}}': "0+3x40 120x200",
        f'tms_recipient_outcomes_total{{{LIVE}, outcome="sent"}}': "0+10x240",
    },
    "TmsBouncesHigh": {
        f'tms_recipient_outcomes_total{{{LIVE}, outcome="bounced"}}': "0+1x40 40x200",
        f'tms_recipient_outcomes_total{{{LIVE}, outcome="sent"}}': "0+10x240",
    },
    "TmsMessagesUncertain": {f'tms_queue_oldest_seconds{{{LIVE}, state="uncertain"}}': "3601x20 0x200"},
    "TmsMessagesHeld": {f'tms_queue_entries{{{LIVE}, state="held"}}': "5x40 0x200"},
    "TmsJournalGrows": {'tms_journal_bytes{instance="a"}': "200000000x30 1000x200"},
    "TmsWebhooksBehind": {'tms_events_oldest_seconds{instance="a"}': "901x20 0x200"},
    "TmsWebhookFailedForADay": {"tms_webhook_outages_total": "0x5 1x215"},
    "TmsAutomationsLate": {'tms_automation_runs{instance="a", state="late"}': "3x20 0x200"},
}
"""Alert -> series, a sample each half minute: first the condition, then its end. In Prometheus' notation `1x20` is 1
and the same 20 times more, `0+2x20` adds 2 each time, and `_` is no sample."""
FIRING = {
    **dict.fromkeys(("TmsRequestsSlow", "TmsHandoverSlow"), "14m"),
    **{"TmsBouncesHigh": "15m", "TmsDeferralsHigh": "15m", "TmsMessagesHeld": "16m", "TmsPurgingLate": "92m"},
}
"""When it fires, for those that do not within ten minutes."""
CLEARED = {"TmsBouncesHigh": "85m", "TmsWebhookFailedForADay": "80m", "TmsPurgingLate": "100m"}
"""When it has ended, for those that look back further than 35 minutes."""


def test_every_rule_has_a_case() -> None:
    assert set(CASES) == set(ALERTS)


@pytest.mark.skipif("MONITORING" not in os.environ, reason="`make monitoring` runs it, with promtool")
def test_rules_fire_when_their_condition_lasts_and_end_with_it(tmp_path: Path) -> None:
    tests = [
        {
            "name": alert,
            "interval": EVERY,
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [
                _expected(alert, FIRING.get(alert, "10m"), firing=True),
                _expected(alert, CLEARED.get(alert, "45m"), firing=False),
            ],
        }
        for alert, series in CASES.items()
    ]
    file = tmp_path / "cases.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": EVERY, "tests": tests}), "utf-8")
    promtool = shutil.which("promtool")
    assert promtool, "`make monitoring` installs it on Debian, as root"
    for command in (("check", "rules", str(RULES)), ("test", "rules", str(file))):
        ran = subprocess.run([promtool, *command], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"{ran.stdout}{ran.stderr}"


def _expected(alert: str, moment: str, *, firing: bool) -> dict[str, object]:
    samples = [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if firing else []
    expr = f'max by (alertname) (ALERTS{{alertname="{alert}", alertstate="firing"}})'
    return {"expr": expr, "eval_time": moment, "exp_samples": samples}
