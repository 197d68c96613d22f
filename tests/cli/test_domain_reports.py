"""Reports about a domain, from the mail to the command line (docs/inbound.md#reports-about-a-domain)."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest
from flask import Flask

from app.accounts.domains import add_domain, find_domain
from app.http.context import EXTENSION
from app.inbound.domain_reports import take
from app.inbound.domain_reports.address import report_address
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
    found: Services = bouncing.extensions[EXTENSION]
    return found


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
        found = report_address(parts.settings, find_domain(session, tenant.id, domain).id)
    assert found
    return found


def receive(parts: Services, to: str, content: bytes) -> Effect:
    received = receive_email(parts, with_attachment(to, content), [to], patience=0)
    assert received.kind == "domain report"
    return received.effect


def test_the_records_ask_for_reports_at_the_address(asking: Cli, domain: str, address: str) -> None:
    records = {one["purpose"]: (one["name"], one["value"]) for one in asking.json("domains", "show", domain)["records"]}
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
    assert [handler._is_ours(one) for one in (address, forged, f"bounces+{token}@bounces.service.example")] == [
        True,
        False,
        False,
    ]
    received = receive_email(parts, with_attachment(forged, dmarc_report("a.example")), [forged], patience=0)
    assert (received.kind, received.effect) == ("ordinary", Effect.IGNORED)


def test_a_limited_number_is_kept(parts: Services, domain: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(take, "MAX_REPORTS", 1)
    assert receive(parts, address, dmarc_report(domain, report_id="one")) is Effect.RECORDED
    assert receive(parts, address, dmarc_report(domain, report_id="two")) is Effect.IGNORED
