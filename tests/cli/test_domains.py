"""`flask domains`: the records to publish, and looking them up (docs/deliverability.md#sending-domains)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from app.db.models import DkimKey, Domain
from app.settings import Settings
from tests.cli.conftest import Cli
from tests.support.apps import app_with
from tests.support.client import invalid
from tests.support.nameserver import FAILING, NameServer
from tests.support.tenants import Tenant, unique

Publish = Callable[..., None]


@pytest.fixture
def names() -> Iterator[NameServer]:
    with NameServer() as running:
        yield running


@pytest.fixture
def asking(settings: Settings, names: NameServer, tenant: Tenant) -> Iterator[Cli]:
    """Commands of a service that queries the test's name server."""
    changes = {"dns_resolver": names.address, "spf_include": "spf.service.example"}
    with app_with(settings, **changes) as app:
        yield Cli(app, tenant.name)


@pytest.fixture
def domain() -> str:
    return f"{unique('domain').lower()}.example"


def publish(names: NameServer, row: dict[str, Any], *purposes: str) -> None:
    """Publishes the records that the service asks for."""
    for record in row["records"]:
        if record["purpose"] in purposes:
            names.texts[record["name"]] = [record["value"]]


def states(row: dict[str, Any]) -> dict[str, list[str | None]]:
    found: dict[str, list[str | None]] = {}
    for record in row["records"]:
        found.setdefault(record["purpose"], []).append(record["state"])
    return found


def test_adding_a_domain_prints_the_records_to_publish(asking: Cli, domain: str) -> None:
    row = asking.json("domains", "add", domain)
    spf, rsa, ed25519, dmarc = row["records"]
    assert (spf["name"], spf["type"], spf["value"]) == (domain, "TXT", "v=spf1 include:spf.service.example ~all")
    assert rsa["name"].endswith(f"-rsa._domainkey.{domain}")
    assert rsa["value"].startswith("v=DKIM1; k=rsa; p=MIIBIjAN")
    assert ed25519["name"].endswith(f"-ed25519._domainkey.{domain}")
    assert ed25519["value"].startswith("v=DKIM1; k=ed25519; p=")
    assert (dmarc["name"], dmarc["value"]) == (f"_dmarc.{domain}", "v=DMARC1; p=none")
    assert asking.json("domains", "show", domain) == row
    assert asking.json("domains", "add", domain) == row, "keys are made once"


def test_the_default_output_is_lines_of_a_zone_file(asking: Cli, domain: str) -> None:
    text = asking.text("domains", "add", domain)
    assert f'{domain}. IN TXT "v=spf1 include:spf.service.example ~all"' in text
    longest = max(text.split('"')[1::2], key=len)
    assert len(longest) == 255, "the longest string that a TXT record can have"


def test_a_domain_is_verified_by_its_records(asking: Cli, names: NameServer, domain: str) -> None:
    row = asking.json("domains", "add", domain)
    first = asking.json("domains", "verify", domain)
    assert (first["verified"], states(first)) == (
        False,
        {"spf": ["missing"], "dkim": ["missing"] * 2, "dmarc": ["missing"]},
    )
    assert first["checked_time"]
    publish(names, row, "spf", "dkim", "dmarc")
    second = asking.json("domains", "verify", domain)
    assert (second["verified"], second["trusted"]) == (True, False)
    assert states(second) == {"spf": ["right"], "dkim": ["right"] * 2, "dmarc": ["right"]}
    assert asking.json("domains", "show", domain) == second, "the state is kept"


def test_spf_and_one_signature_are_sufficient(asking: Cli, names: NameServer, domain: str) -> None:
    row = asking.json("domains", "add", domain)
    publish(names, row, "dkim")
    assert asking.json("domains", "verify", domain)["verified"] is False
    names.texts[domain] = ["some-site-verification=1", "v=spf1 mx +include:SPF.service.example -all"]
    del names.texts[row["records"][2]["name"]]
    assert asking.json("domains", "verify", domain)["verified"] is True


@pytest.mark.parametrize(
    "texts",
    [
        ["v=spf1 include:spf.other.example ~all"],
        ["v=spf1 -include:spf.service.example ~all"],
        ["v=spf1 include:spf.service.example ~all", "v=spf1 -all"],
    ],
)
def test_a_wrong_spf_record_is_reported(asking: Cli, names: NameServer, domain: str, texts: list[str]) -> None:
    row = asking.json("domains", "add", domain)
    publish(names, row, "dkim")
    names.texts[domain] = texts
    checked = asking.json("domains", "verify", domain)
    assert (checked["verified"], checked["records"][0]["state"]) == (False, "wrong")
    assert sorted(checked["records"][0]["found"]) == sorted(texts)
    assert f"found: {texts[0]}" in asking.text("domains", "show", domain)


def test_another_key_is_wrong(asking: Cli, names: NameServer, domain: str) -> None:
    row = asking.json("domains", "add", domain)
    publish(names, row, "spf")
    names.texts[row["records"][1]["name"]] = ["v=DKIM1; k=rsa; p=AAAA"]
    checked = asking.json("domains", "verify", domain)
    assert (checked["verified"], states(checked)["dkim"]) == (False, ["wrong", "missing"])


def test_removed_records_remove_the_verification(asking: Cli, names: NameServer, domain: str) -> None:
    row = asking.json("domains", "add", domain)
    publish(names, row, "spf", "dkim")
    asking.text("domains", "verify", domain)
    names.texts[domain] = FAILING
    unknown = asking.json("domains", "verify", domain)
    assert (unknown["verified"], states(unknown)["spf"]) == (True, ["unknown"]), "no answer changes nothing"
    del names.texts[domain]
    assert asking.json("domains", "verify", domain)["verified"] is False


def test_a_trusted_domain_stays_configured(asking: Cli, domain: str) -> None:
    asking.text("domains", "add", domain, "--trust")
    checked = asking.json("domains", "verify", domain)
    assert (checked["verified"], checked["trusted"], states(checked)["spf"]) == (True, True, ["missing"])


def test_sends_are_refused_until_the_domain_is_verified(
    asking: Cli, names: NameServer, tenant: Tenant, customers: int, domain: str
) -> None:
    body = {
        "type": "email", "list_id": customers, "group_name": "g", "subject": "s", "body_text": "t",
        "from_address": f"shop@{domain}", "recipients": [{"email": "ann@example.com"}],
    }  # fmt: skip
    row = asking.json("domains", "add", domain)
    invalid(tenant.api.post("/v1/transactional-sends", body), "invalid_from_address_domain")
    publish(names, row, "spf", "dkim")
    asking.text("domains", "verify", domain)
    assert tenant.api.post("/v1/transactional-sends", body).status_code == 202


def test_private_keys_are_encrypted(app: Flask, cli: Cli, tenant: Tenant, domain: str) -> None:
    cli.text("domains", "add", domain)
    with tenant.services.database.read() as session:
        statement = select(DkimKey).join(Domain, Domain.id == DkimKey.domain_id).where(Domain.name == domain)
        keys = session.scalars(statement).all()
    assert sorted(key.algorithm for key in keys) == ["ed25519", "rsa"]
    assert not any("PRIVATE" in key.private_key for key in keys)


def test_two_accounts_have_keys_of_their_own(bare: Cli, tenant: Tenant, other_tenant: Tenant, domain: str) -> None:
    names = set()
    for account in (tenant, other_tenant):
        row = Cli(tenant.app, account.name).json("domains", "add", domain)
        names |= {record["name"] for record in row["records"] if record["purpose"] == "dkim"}
    assert len(names) == 4


def test_the_return_path_domain_has_its_own_records(
    settings: Settings, names: NameServer, tenant: Tenant, domain: str
) -> None:
    changes = {
        "dns_resolver": names.address,
        "spf_include": "spf.service.example",
        "bounce_domain": "back.service.example",
        "public_url": "https://send.service.example",
    }
    with app_with(settings, **changes) as app:
        asking = Cli(app, tenant.name)
        row = asking.json("domains", "add", domain)
        assert row["return_path"] == "bounces+…@back.service.example"
        spf, mx = row["records"][-2:]
        assert (spf["name"], spf["value"]) == ("back.service.example", "v=spf1 include:spf.service.example ~all")
        assert (mx["name"], mx["type"], mx["value"]) == ("back.service.example", "MX", "10 send.service.example.")
        names.texts["back.service.example"] = [spf["value"]]
        names.exchanges["back.service.example"] = ["10 mail.elsewhere.example."]
        assert states(asking.json("domains", "verify", domain))["return_path"] == ["right", "wrong"]
        names.exchanges["back.service.example"] += ["20 Send.Service.example."]
        assert states(asking.json("domains", "verify", domain))["return_path"] == ["right", "right"]
        assert "back.service.example. IN MX 10 send.service.example." in asking.text("domains", "show", domain)
