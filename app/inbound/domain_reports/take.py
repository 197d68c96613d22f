"""Storing the reports about a domain, each once (docs/domain-reports.md)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

import orjson
from sqlalchemy import exists, func, select
from sqlalchemy.orm import aliased

from app.clock import now
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.models import Domain, DomainReport
from app.inbound.domain_reports.documents import ParsedReport, UnreadableReport, documents_of, read_dmarc, read_tls
from app.inbound.effect import Effect
from app.inbound.email.fields import parse_large
from app.services import Services

logger = logging.getLogger(__name__)

DAY = timedelta(days=1)
MAX_DAY_BYTES = 4 * 1024 * 1024
"""Bytes of the reports about one domain that are stored within a day: its address is public, so anybody can send any
number. A usual report has one to fifty kilobytes."""
MAX_REPORTER_BYTES = MAX_DAY_BYTES // 8
"""Bytes of the reports about one domain within a day that one reporter may use."""
MAX_NEW_BYTES = MAX_DAY_BYTES // 2
"""Bytes of the reports about one domain within a day that reporters may use together that had sent none before:
anybody can make up their names, and they keep out no known reporter."""
ROW_BYTES = 512
"""What a report counts besides its content."""


def take_domain_report(services: Services, domain_id: int, raw: bytes) -> Effect:
    """Stores the reports of a message to the address of a domain. Raises `SQLAlchemyError` when the database fails."""
    try:
        reports = read_reports_about_domain(raw)
    except UnreadableReport as error:
        logger.info("a report about a domain was ignored: %s", error)
        return Effect.IGNORED
    effects = [services.database.transact(partial(_store, domain_id=domain_id, report=report)) for report in reports]
    return next((effect for effect in (Effect.RECORDED, Effect.KNOWN) if effect in effects), Effect.IGNORED)


def read_reports_about_domain(raw: bytes) -> list[ParsedReport]:
    """The reports of a message. Raises `UnreadableReport` if there are documents, and none of them is a report."""
    reports, refused = list[ParsedReport](), None
    for document in documents_of(parse_large(raw)):
        try:
            reports.append(read_dmarc(document) if document.startswith(b"<") else read_tls(document))
        except UnreadableReport as error:  # the text for people may be HTML
            refused = error
    if refused and not reports:
        raise refused
    return reports


def _store(transaction: Transaction, domain_id: int, report: ParsedReport) -> Effect:
    domain = transaction.get(Domain, domain_id)
    if domain is None or not _is_about(report.domain, domain.name):
        return Effect.IGNORED
    same = select(func.count()).where(
        DomainReport.account_id == domain.account_id,
        DomainReport.domain_id == domain_id,
        DomainReport.kind == report.kind,
        DomainReport.reporter == report.reporter,
        DomainReport.report_id == report.report_id,
    )
    if transaction.scalar(same):
        return Effect.KNOWN
    row = {
        "account_id": domain.account_id,
        "domain_id": domain_id,
        "kind": report.kind,
        "reporter": report.reporter,
        "report_id": report.report_id,
        "begin_time": report.begin_time,
        "end_time": report.end_time,
        "time": now(),
        "passed": report.passed,
        "failed": report.failed,
        "content": report.content,
        "size": ROW_BYTES + len(orjson.dumps(report.content)),
    }
    if not _has_room(transaction, row):
        logger.warning("a report about %s by %s was ignored: there are too many", domain.name, report.reporter)
        return Effect.IGNORED
    insert_new_rows(transaction, DomainReport, [row])
    return Effect.RECORDED


def _has_room(transaction: Transaction, row: Mapping[str, Any]) -> bool:
    """Whether the domain may get the report today, which other reporters cannot prevent."""
    domain_filter = (DomainReport.account_id == row["account_id"], DomainReport.domain_id == row["domain_id"])
    since = row["time"] - DAY
    before = aliased(DomainReport)
    is_known = exists().where(
        before.account_id == row["account_id"],
        before.domain_id == row["domain_id"],
        before.kind == DomainReport.kind,
        before.reporter == DomainReport.reporter,
        before.time < since,
    )
    sizes = (
        select(DomainReport.reporter, is_known.label("is_known"), func.sum(DomainReport.size).label("size"))
        .where(*domain_filter, DomainReport.time >= since)
        .group_by(DomainReport.kind, DomainReport.reporter)
    )
    sizes_by_reporter, new_size = Counter[str](), 0
    for reporter, is_known_reporter, size in transaction.execute(sizes):
        sizes_by_reporter[reporter] += size
        new_size += 0 if is_known_reporter else size
    if sizes_by_reporter.total() + row["size"] > MAX_DAY_BYTES:
        return False
    if sizes_by_reporter[row["reporter"]] + row["size"] > MAX_REPORTER_BYTES:
        return False
    earlier = (DomainReport.kind == row["kind"], DomainReport.reporter == row["reporter"], DomainReport.time < since)
    return new_size + row["size"] <= MAX_NEW_BYTES or bool(
        transaction.scalar(select(func.count()).where(*domain_filter, *earlier))
    )


def _is_about(reported: str, name: str) -> bool:
    """Whether the report is about the domain: a policy also applies to the domains below its own."""
    return reported == name or name.endswith(f".{reported}") or reported.endswith(f".{name}")
