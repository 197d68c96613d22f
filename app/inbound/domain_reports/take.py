"""Storing the reports about a domain, each once (docs/inbound.md#reports-about-a-domain)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from sqlalchemy import func, select

from app.clock import now
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.models import Domain, DomainReport
from app.inbound.domain_reports.dmarc import read_dmarc
from app.inbound.domain_reports.documents import documents_of
from app.inbound.domain_reports.parsed import ParsedReport, UnreadableReport
from app.inbound.domain_reports.tls import read_tls
from app.inbound.effect import Effect
from app.inbound.email.fields import parse_large
from app.services import Services

logger = logging.getLogger(__name__)

MAX_REPORTS = 5_000
"""Reports about one domain that are kept at a time: its address is public, so anybody can send any number."""


def take_domain_report(services: Services, domain_id: int, raw: bytes) -> Effect:
    """Stores the reports of a message to the address of a domain. Raises `SQLAlchemyError` when the database fails."""
    try:
        reports = read_reports_about_domain(raw)
    except UnreadableReport as error:
        logger.info("a report about a domain was ignored: %s", error)
        return Effect.IGNORED
    effects = [services.database.transact(_storing(domain_id, report)) for report in reports]
    return next((effect for effect in (Effect.RECORDED, Effect.KNOWN) if effect in effects), Effect.IGNORED)


def read_reports_about_domain(raw: bytes) -> list[ParsedReport]:
    """The reports of a message. Raises `UnreadableReport`."""
    documents = documents_of(parse_large(raw))
    return [read_dmarc(one) if one.startswith(b"<") else read_tls(one) for one in documents]


def _storing(domain_id: int, report: ParsedReport) -> Callable[[Transaction], Effect]:
    return lambda transaction: _store(transaction, domain_id, report)


def _store(transaction: Transaction, domain_id: int, report: ParsedReport) -> Effect:
    domain = transaction.get(Domain, domain_id)
    if domain is None or not _is_about(report.domain, domain.name):
        return Effect.IGNORED
    of_domain = (DomainReport.account_id == domain.account_id, DomainReport.domain_id == domain_id)
    same = select(func.count()).where(
        *of_domain,
        DomainReport.kind == report.kind,
        DomainReport.reporter == report.reporter,
        DomainReport.report_id == report.report_id,
    )
    if transaction.scalar(same):
        return Effect.KNOWN
    if (transaction.scalar(select(func.count()).where(*of_domain)) or 0) >= MAX_REPORTS:
        logger.warning("a report about %s was ignored: there are %s already", domain.name, MAX_REPORTS)
        return Effect.IGNORED
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
    }
    insert_new_rows(transaction, DomainReport, [row])
    return Effect.RECORDED


def _is_about(reported: str, name: str) -> bool:
    """Whether the report is about the domain: a policy also applies to the domains below its own."""
    return reported == name or name.endswith(f".{reported}") or reported.endswith(f".{name}")
