"""Reports about a domain, from the mail to the command line (docs/domain-reports.md)."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import orjson
import pytest
from flask import Flask
from sqlalchemy import select, update

from app.accounts.domains import add_domain, find_domain
from app.clock import now
from app.db.models import DomainReport
from app.http.context import EXTENSION
from app.inbound.domain_reports import take
from app.inbound.domain_reports.address import report_address
from app.inbound.domain_reports.documents import FAILED, MAX_COUNT, SUCCEEDED
from app.inbound.effect import Effect
from app.inbound.email.listener import Handler
from app.inbound.email.receive import receive_email
from app.services import Services
from app.settings import Settings
from tests.cli.conftest import Cli
from tests.support.apps import app_with
from tests.support.mail_reports import dmarc_report, plain, tls_report, with_attachment, zipped
from tests.support.tenants import Tenant, unique

SOURCES = (("192.0.2.1", 5, "pass", "fail"), ("198.51.100.9", 3, "fail", "fail"))


@pytest.fixture(scope="module")
def bouncing(settings: Settings) -> Iterator[Flask]:
    """An application that receives mail."""
    with app_with(settings, bounce_domain="bounces.service.example") as app:
        yield app


@pytest.fixture
def parts(bouncing: Flask) -> Services:
    services: Services = bouncing.extensions[EXTENSION]
    return services


@pytest.fixture
def asking(bouncing: Flask, tenant: Tenant) -> Cli:
    return Cli(bouncing, tenant.name)


@pytest.fixture
def domain(parts: Services, tenant: Tenant) -> str:
    name = f"{unique('domain').lower()}.example"
    with parts.database.write() as transaction:
        add_domain(transaction, tenant.id, name, trusted=True, secret_key=parts.settings.secret_key)
    return name


@pytest.fixture
def address(parts: Services, tenant: Tenant, domain: str) -> str:
    """The address that the domain's records publish."""
    with parts.database.read() as session:
        address_in_reports = report_address(parts.settings, find_domain(session, tenant.id, domain).id)
    assert address_in_reports
    return address_in_reports


def receive(parts: Services, to: str, content: bytes) -> Effect:
    received = receive_email(parts, with_attachment(to, content), [to], patience=0)
    assert received.kind == "domain report"
    return received.effect


def test_the_records_ask_for_reports_at_the_address(asking: Cli, domain: str, address: str) -> None:
    records = {
        record["purpose"]: (record["name"], record["value"])
        for record in asking.json("domains", "show", domain)["records"]
    }
    assert records["dmarc"] == (f"_dmarc.{domain}", f"v=DMARC1; p=none; rua=mailto:{address}")
    assert records["dmarc_reports"] == (f"{domain}._report._dmarc.bounces.service.example", "v=DMARC1")
    assert records["tls_reports"] == (f"_smtp._tls.{domain}", f"v=TLSRPTv1; rua=mailto:{address}")


def test_reports_are_stored_once_and_shown(parts: Services, asking: Cli, domain: str, address: str) -> None:
    report = dmarc_report(domain, *SOURCES)
    assert receive(parts, address, zipped(report)) is Effect.RECORDED
    assert receive(parts, address.upper(), gzip.compress(report)) is Effect.KNOWN
    assert receive(parts, address, gzip.compress(tls_report(domain))) is Effect.RECORDED
    tls, dmarc = sorted(asking.json("domains", "reports", domain), key=lambda row: row["kind"], reverse=True)
    assert (dmarc["reporter"], dmarc["passed"], dmarc["failed"]) == ("mailbox.example", 5, 3)
    assert (dmarc["begin_time"], len(dmarc["content"]["sources"])) == ("2026-01-31T00:00:00Z", 2)
    assert (tls["reporter"], tls["passed"], tls["failed"]) == ("Mailbox Inc.", 10, 2)
    assert asking.json("domains", "reports", domain, "--kind", "tls") == [tls]
    assert asking.json("domains", "reports", domain, "--failures") == [
        {"kind": "dmarc", "source": "198.51.100.9", "about": domain, "count": 3},
        {"kind": "tls", "source": f"mx.{domain}", "about": "certificate-expired", "count": 2},
    ]
    assert "mailbox.example" in asking.text("domains", "reports", domain)


def test_reports_count_up_to_a_limit_together(parts: Services, asking: Cli, domain: str, address: str) -> None:
    """Each of these counts is one that a report may have; their sums are beyond what a database, or JSON, can hold."""
    record = b"<record><row><count>999999999999999</count></row></record>"
    dmarc = dmarc_report(domain).replace(b"</feedback>", record * 9_300 + b"</feedback>")
    assert receive(parts, address, gzip.compress(dmarc)) is Effect.RECORDED
    summary = dict.fromkeys((SUCCEEDED, FAILED), MAX_COUNT)
    details = [{"result-type": "other", "failed-session-count": MAX_COUNT}] * 500
    policies = [{"policy": {"policy-domain": domain}, "summary": summary}] * 1_100
    policies[0] = {**policies[0], "failure-details": details}
    for number in range(5):
        tls = orjson.dumps({"report-id": str(number), "policies": policies})
        assert receive(parts, address, gzip.compress(tls)) is Effect.RECORDED
    counts = {(row["kind"], row["passed"], row["failed"]) for row in asking.json("domains", "reports", domain)}
    assert counts == {("dmarc", 0, MAX_COUNT), ("tls", MAX_COUNT, MAX_COUNT)}
    failures = {row["kind"]: row["count"] for row in asking.json("domains", "reports", domain, "--failures")}
    assert failures == {"dmarc": MAX_COUNT, "tls": MAX_COUNT}


def test_a_report_about_another_domain_or_no_report_is_ignored(
    parts: Services, asking: Cli, domain: str, address: str
) -> None:
    assert receive(parts, address, dmarc_report("elsewhere.example", *SOURCES)) is Effect.IGNORED
    assert receive(parts, address, b"<html>") is Effect.IGNORED
    assert receive_email(parts, plain(address), [address], patience=0).effect is Effect.IGNORED
    assert receive(parts, address, dmarc_report(f"mail.{domain}", *SOURCES)) is Effect.RECORDED
    assert len(asking.json("domains", "reports", domain)) == 1


def test_an_address_is_good_for_its_domain_alone(parts: Services, address: str) -> None:
    handler = Handler(parts)
    token = address.partition("@")[0].partition("+")[2]
    forged = f"reports+{token[:-1]}{'a' if token[-1] != 'a' else 'b'}@bounces.service.example"
    assert [
        handler._is_ours(recipient) for recipient in (address, forged, f"bounces+{token}@bounces.service.example")
    ] == [
        True,
        False,
        False,
    ]
    received = receive_email(parts, with_attachment(forged, dmarc_report("a.example")), [forged], patience=0)
    assert (received.kind, received.effect) == ("ordinary", Effect.IGNORED)


def of(reporter: str, domain: str, report_id: str, sources: int = 1) -> bytes:
    """A report by somebody."""
    report = dmarc_report(domain, *SOURCES[:1] * sources, report_id=report_id)
    return report.replace(b"mailbox.example", reporter.encode())


LARGE = 50
"""Sources of a large report. A reporter may send a few of them in a day."""


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """An eighth of each limit of a day."""
    for name in ("MAX_DAY_BYTES", "MAX_REPORTER_BYTES", "MAX_NEW_BYTES"):
        monkeypatch.setattr(take, name, getattr(take, name) // 8)


def flood(parts: Services, address: str, domain: str, reporter: str) -> int:
    """How many of a reporter's largest reports are stored, until there is no room for another one."""
    for number in range(200):
        if receive(parts, address, gzip.compress(of(reporter, domain, str(number), LARGE))) is not Effect.RECORDED:
            return number
    return 200


def stored_bytes(parts: Services, tenant: Tenant) -> int:
    """What the reports about the account's domains take."""
    with parts.database.read() as session:
        contents = session.scalars(select(DomainReport.content).where(DomainReport.account_id == tenant.id))
        return sum(len(orjson.dumps(content)) for content in contents)


@pytest.mark.usefixtures("small_limits")
def test_a_reporter_keeps_out_no_other_one(parts: Services, tenant: Tenant, domain: str, address: str) -> None:
    assert 0 < flood(parts, address, domain, "loud.example") < 20
    assert receive(parts, address, of("quiet.example", domain, "1")) is Effect.RECORDED
    assert stored_bytes(parts, tenant) <= take.MAX_REPORTER_BYTES + 1000


@pytest.mark.usefixtures("small_limits")
def test_new_reporters_keep_out_none_that_is_known(parts: Services, tenant: Tenant, domain: str, address: str) -> None:
    """Anybody can make up as many names of reporters as they like."""
    assert receive(parts, address, of("old.example", domain, "1")) is Effect.RECORDED
    with parts.database.write() as transaction:
        criteria = DomainReport.account_id == tenant.id
        transaction.execute(update(DomainReport).where(criteria).values(time=now() - take.DAY * 2))
    stored = [flood(parts, address, domain, f"new{number}.example") for number in range(8)]
    assert stored[0]
    assert not stored[-1]
    assert receive(parts, address, of("new.example", domain, "1", LARGE)) is Effect.IGNORED
    assert take.MAX_NEW_BYTES * 0.9 < stored_bytes(parts, tenant) <= take.MAX_NEW_BYTES + 1000
    assert receive(parts, address, of("old.example", domain, "2", LARGE)) is Effect.RECORDED


@pytest.mark.usefixtures("small_limits")
def test_a_domain_gets_so_many_bytes_in_a_day(parts: Services, tenant: Tenant, domain: str, address: str) -> None:
    """The limit holds even for reporters that are known. On the next day there is room again."""
    names = [f"old{number}.example" for number in range(12)]
    for name in names:
        assert receive(parts, address, of(name, domain, "first")) is Effect.RECORDED
    criteria = DomainReport.account_id == tenant.id
    with parts.database.write() as transaction:
        transaction.execute(update(DomainReport).where(criteria).values(time=now() - take.DAY * 2))
    for name in names:
        flood(parts, address, domain, name)
    assert stored_bytes(parts, tenant) <= take.MAX_DAY_BYTES + 10_000
    assert receive(parts, address, of(names[-1], domain, "last", LARGE)) is Effect.IGNORED
    with parts.database.write() as transaction:
        transaction.execute(update(DomainReport).where(criteria).values(time=now() - take.DAY * 2))
    assert receive(parts, address, of(names[-1], domain, "last", LARGE)) is Effect.RECORDED
