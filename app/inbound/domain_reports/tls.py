"""TLS reports (RFC 8460): how encrypted the sessions were by which other servers delivered mail to the domain. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from app.inbound.domain_reports.parsed import ParsedReport, Rows, UnreadableReport, count_of, short

MAX_BYTES = 2 * 1024 * 1024
"""Of the JSON, all of which is parsed at once."""
MAX_POLICIES = 50
SUCCEEDED, FAILED = "total-successful-session-count", "total-failure-session-count"


def read_tls(document: bytes) -> ParsedReport:
    """The report of a JSON document. Raises `UnreadableReport`."""
    if len(document) > MAX_BYTES:
        raise UnreadableReport("it is too long")
    try:
        report = orjson.loads(document)
    except orjson.JSONDecodeError as error:
        raise UnreadableReport(f"it is no TLS report: {error.msg}") from None
    report = _object(report)
    policies = [_object(one) for one in _list(report.get("policies"))]
    names = [_text(_object(one.get("policy")), "policy-domain").lower().rstrip(".") for one in policies]
    if not names or not names[0] or not _text(report, "report-id"):
        raise UnreadableReport("it is no TLS report: it names no domain, or has no id")
    period = _object(report.get("date-range"))
    summaries = [_object(one.get("summary")) for one in policies]
    details = (_object(one) for policy in policies for one in _list(policy.get("failure-details")))
    failures = Rows(map(_failure, details))
    return ParsedReport(
        "tls",
        names[0],
        short(_text(report, "organization-name")),
        short(_text(report, "report-id")),
        _moment(_text(period, "start-datetime")),
        _moment(_text(period, "end-datetime")),
        sum(count_of(one.get(SUCCEEDED)) for one in summaries),
        sum(count_of(one.get(FAILED)) for one in summaries),
        {
            "policies": [_policy(one) for one in policies[:MAX_POLICIES]],
            "failures": failures.kept,
            "further_failures": failures.further,
        },
    )


def _policy(policy: dict[str, Any]) -> dict[str, Any]:
    described, summary = _object(policy.get("policy")), _object(policy.get("summary"))
    return {
        "type": short(_text(described, "policy-type")),
        "domain": short(_text(described, "policy-domain")),
        "passed": count_of(summary.get(SUCCEEDED)),
        "failed": count_of(summary.get(FAILED)),
    }


def _failure(failure: dict[str, Any]) -> dict[str, Any]:
    return {
        "result": short(_text(failure, "result-type")),
        "count": count_of(failure.get("failed-session-count")),
        "source_ip": short(_text(failure, "sending-mta-ip")),
        "receiving_mx": short(_text(failure, "receiving-mx-hostname")),
        "reason": short(_text(failure, "failure-reason-code")),
    }


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text[:40])
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).replace(microsecond=0)
    except (ValueError, OverflowError):
        return datetime.fromtimestamp(0, UTC)


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
