"""Reading the stored reports about a domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.models import Domain, DomainReport
from app.inbound.domain_reports.documents import MAX_COUNT

COLUMNS = ("kind", "reporter", "report_id", "begin_time", "end_time", "passed", "failed")


def domain_reports(session: Session, domain: Domain, *, kind: str | None, limit: int) -> list[dict[str, Any]]:
    """The latest reports about the domain, with their contents."""
    statement = (
        select(DomainReport)
        .where(DomainReport.account_id == domain.account_id, DomainReport.domain_id == domain.id)
        .order_by(DomainReport.end_time.desc(), DomainReport.id.desc())
        .limit(limit)
    )
    if kind is not None:
        statement = statement.where(DomainReport.kind == kind)
    rows = session.scalars(statement)
    return [{**{name: getattr(row, name) for name in COLUMNS}, "content": row.content} for row in rows]


def failing_sources(reports: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What failed in these reports, added up, the most frequent first: for DMARC by the server that sent the mails,
    for TLS by the result and the server that was connected to."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for report in reports:
        for row in report["content"].get("sources", ()):
            if "pass" not in (row["dkim"], row["spf"]):
                counts["dmarc", row["source_ip"], row["header_from"]] += row["count"]
        for row in report["content"].get("failures", ()):
            counts["tls", row["receiving_mx"], row["result"]] += row["count"]
    return [
        {"kind": kind, "source": source, "about": about, "count": min(count, MAX_COUNT)}
        for (kind, source, about), count in counts.most_common()
    ]
