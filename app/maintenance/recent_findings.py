"""What needs attention by what this host counted in the last minutes (docs/monitoring/alerts.md). Pure.

Each finding has the condition of its alert's rule, in the window of that rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from app.infrastructure.shared_counts import Counts
from app.maintenance.alerts import ALERTS, Finding
from app.maintenance.words import counted, lasting, share

REQUESTS = "tms_http_requests_total"
REQUEST_SECONDS = "tms_http_request_seconds_bucket"
HANDOVER_SECONDS = "tms_handover_seconds_bucket"
REPLIES = "tms_transport_replies_total"
OUTCOMES = "tms_recipient_outcomes_total"
TYPES = ("email", "sms")

Growths = Mapping[int, Counts]
"""Window of an alert in seconds -> how much the counts have grown in it."""


def recent_findings(growths: Growths) -> Iterator[Finding]:
    """All of them, in the order of the runbook. None where nothing was counted yet."""
    yield from _requests(growths)
    yield from _handover(growths)
    yield from _unreachable(growths)
    yield from _outcomes(growths)
    if number := _growth(growths, "TmsWebhookFailedForADay", "tms_webhook_outages_total"):
        detail = f"in the last hour, {counted(number, 'webhook')} reached a whole day of failures"
        yield Finding("TmsWebhookFailedForADay", detail)


def _growth(growths: Growths, alert: str, name: str, **labels: str) -> float:
    """How much a count has grown in the window of the alert, over all series that have these labels."""
    counts = growths.get(ALERTS[alert].window, {})
    return sum(value for (key, named), value in counts.items() if key == name and labels.items() <= dict(named).items())


def _requests(growths: Growths) -> Iterator[Finding]:
    counts = growths.get(ALERTS["TmsRequestsFail"].window, {})
    by_status: dict[str, float] = defaultdict(float)
    for (name, labels), value in counts.items():
        if name == REQUESTS:
            by_status[dict(labels)["status"][0]] += value
    total, failed = sum(by_status.values()), by_status["5"]
    if total and failed / total > ALERTS["TmsRequestsFail"].limit:
        yield Finding("TmsRequestsFail", f"{share(failed, total)} of the requests of the last five minutes failed")
    slow = _quantile(_buckets(growths, "TmsRequestsSlow", REQUEST_SECONDS), 0.99)
    if slow > ALERTS["TmsRequestsSlow"].limit:
        yield Finding("TmsRequestsSlow", "one request in a hundred takes longer than a second")
    if number := _growth(growths, "TmsConnectionsExhausted", "tms_database_errors_total", reason="pool"):
        words = f"{counted(number, 'request')} of the last five minutes found no free connection to the database"
        yield Finding("TmsConnectionsExhausted", words)


def _handover(growths: Growths) -> Iterator[Finding]:
    limit = ALERTS["TmsHandoverSlow"].limit
    for type_ in TYPES:
        buckets = _buckets(growths, "TmsHandoverSlow", HANDOVER_SECONDS, account_class="live", type=type_)
        if _quantile(buckets, 0.95) > limit:
            words = f"one {type_} message in twenty reaches its relay or gateway later than {lasting(limit)}"
            yield Finding("TmsHandoverSlow", words)


def _unreachable(growths: Growths) -> Iterator[Finding]:
    """Transports of which messages got no answer, and none was accepted."""
    counts = growths.get(ALERTS["TmsRelayUnreachable"].window, {})
    replies: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for (name, labels), value in counts.items():
        if name == REPLIES:
            named = dict(labels)
            replies[named["type"], named["transport"]][named["reply"]] += value
    for (type_, transport), numbers in sorted(replies.items()):
        if numbers["none"] > 0 and not numbers["accepted"]:
            words = (
                f"transport {transport} accepts no {type_} message: {counted(numbers['none'], 'attempt')} got no answer"
            )
            yield Finding("TmsRelayUnreachable", words)


def _outcomes(growths: Growths) -> Iterator[Finding]:
    """Of all attempts, those that were deferred or bounced."""
    for alert, outcome, when, verb in (
        ("TmsDeferralsHigh", "deferred", "quarter of an hour", "were deferred"),
        ("TmsBouncesHigh", "bounced", "hour", "bounced"),
    ):
        for type_ in TYPES:
            labels = {"account_class": "live", "type": type_}
            total = _growth(growths, alert, OUTCOMES, **labels)
            number = _growth(growths, alert, OUTCOMES, **labels, outcome=outcome)
            if total > ALERTS[alert].minimum and number / total > ALERTS[alert].limit:
                words = f"{share(number, total)} of the attempts to send {type_} messages in the last {when} {verb}"
                yield Finding(alert, words)


def _buckets(growths: Growths, alert: str, name: str, **labels: str) -> dict[float, float]:
    """Upper bound -> the number of observations up to it, in the window of the alert."""
    buckets: dict[float, float] = defaultdict(float)
    for (key, named), value in growths.get(ALERTS[alert].window, {}).items():
        if key == name and labels.items() <= dict(named).items():
            buckets[float(dict(named)["le"])] += value
    return buckets


def _quantile(buckets: Mapping[float, float], quantile: float) -> float:
    """The bound below which that share of the observations lies, interpolated as Prometheus does; 0 without any."""
    total, before, lower = max(buckets.values(), default=0.0), 0.0, 0.0
    if not total:
        return 0.0
    for upper, number in sorted(buckets.items()):
        if number >= quantile * total:
            if upper == float("inf"):
                return lower
            return lower + (upper - lower) * (quantile * total - before) / (number - before)
        before, lower = number, upper
    return lower
