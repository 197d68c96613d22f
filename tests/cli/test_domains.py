"""`flask domains`: the records to publish, and looking them up (docs/deliverability.md#sending-domains)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from flask import Flask
from sqlalchemy import select

from app.accounts import domain_hosts
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
    states_by_purpose: dict[str, list[str | None]] = {}
    for record in row["records"]:
        states_by_purpose.setdefault(record["purpose"], []).append(record["state"])
    return states_by_purpose


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
    acts = asking.acts("object=domain")
    assert acts == [("domain.created", "domains add"), ("domain.verified", "domains verify")]


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


# ---------------------------------------------------------------------------------------------- keys


def keys(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Selector and state of each key."""
    return [(key["selector"], key["state"]) for key in row["keys"]]


@pytest.fixture
def pem(tmp_path: Path) -> Callable[[Any], str]:
    """Writes a private key to a file; returns its path."""

    def write(key: Any) -> str:
        path = tmp_path / "private.pem"
        path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return str(path)

    return write


def test_the_selector_can_be_chosen(asking: Cli, domain: str) -> None:
    row = asking.json("domains", "add", domain, "--selector", "mail")
    assert keys(row) == [("mail", "active"), ("mail-ed25519", "active")]
    assert row["records"][1]["name"] == f"mail._domainkey.{domain}"
    assert "already has keys" in asking.refused("domains", "add", domain, "--selector", "other")
    for selector in ("Mail", "-mail", "mail..2", "a_b", "m" * 64):
        assert "is not a selector" in asking.refused("domains", "add", f"x{domain}", "--selector", selector)


def test_a_new_key_signs_once_its_record_is_published(asking: Cli, names: NameServer, domain: str) -> None:
    first = asking.json("domains", "add", domain, "--selector", "one")
    publish(names, first, "spf", "dkim")
    rotated = asking.json("domains", "rotate", domain, "--selector", "two")
    both = [("one", "active"), ("two", "pending"), ("one-ed25519", "active"), ("two-ed25519", "pending")]
    assert keys(rotated) == both
    assert keys(asking.json("domains", "verify", domain)) == both, "its record is missing"
    assert "is pending" in asking.refused("domains", "rotate", domain)
    names.texts[f"two._domainkey.{domain}"] = [rotated["records"][2]["value"]]
    verified = asking.json("domains", "verify", domain)
    assert keys(verified) == [("one", "retired"), ("two", "active"), *both[2:]]
    assert verified["verified"] is True
    assert [record["name"] for record in verified["records"] if record["purpose"] == "dkim"] == [
        f"{selector}._domainkey.{domain}" for selector in ("two", "one-ed25519", "two-ed25519")
    ]
    assert "one  rsa  retired since 2" in asking.text("domains", "show", domain)


def test_a_key_of_ones_own_is_imported(asking: Cli, names: NameServer, domain: str, pem: Callable[[Any], str]) -> None:
    asking.text("domains", "add", domain, "--selector", "one")
    private_key = generate_private_key(65537, 1024)
    row = asking.json("domains", "import-key", domain, "--selector", "s1", "--key", pem(private_key))
    assert keys(row)[:2] == [("one", "active"), ("s1", "pending")]
    public = base64.b64encode(
        private_key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    ).decode()
    names.texts[f"s1._domainkey.{domain}"] = [f"v=DKIM1; k=rsa; p={public}"]
    assert keys(asking.json("domains", "verify", domain))[:2] == [("one", "retired"), ("s1", "active")]


def test_a_key_that_cannot_be_used_is_refused(
    asking: Cli, domain: str, pem: Callable[[Any], str], tmp_path: Path, other_tenant: Tenant
) -> None:
    asking.text("domains", "add", domain, "--selector", "one")
    imported = ("domains", "import-key", domain, "--key")
    (tmp_path / "no.pem").write_text("no key")
    assert "PEM" in asking.refused(*imported, str(tmp_path / "no.pem"), "--selector", "s1")
    assert "PEM" in asking.refused(*imported, pem(ec.generate_private_key(ec.SECP256R1())), "--selector", "s1")
    path = pem(Ed25519PrivateKey.generate())
    assert "has the selector one" in asking.refused(*imported, path, "--selector", "one")
    Cli(asking.app, other_tenant.name).text("domains", "add", domain, "--selector", "theirs", "--trust")
    assert "has the selector theirs" in asking.refused(*imported, path, "--selector", "theirs")


def test_who_only_claims_a_domain_takes_no_selector(
    asking: Cli, names: NameServer, domain: str, other_tenant: Tenant
) -> None:
    claim = Cli(asking.app, other_tenant.name).json("domains", "add", domain, "--selector", "one")
    proven = asking.json("domains", "add", domain, "--selector", "one")
    for record in proven["records"]:
        names.texts[record["name"]] = [record["value"]]
    assert asking.json("domains", "verify", domain)["verified"]
    assert not Cli(asking.app, other_tenant.name).json("domains", "verify", domain)["verified"]
    assert {key["selector"] for key in claim["keys"]} == {key["selector"] for key in proven["keys"]}


def test_a_key_that_does_not_sign_alone_can_be_removed(asking: Cli, domain: str) -> None:
    asking.text("domains", "add", domain, "--selector", "one")
    asking.text("domains", "rotate", domain, "--selector", "two")
    for selector in ("two", "two-ed25519", "one-ed25519"):
        asking.text("domains", "remove-key", domain, selector)
    assert "is the only key" in asking.refused("domains", "remove-key", domain, "one")
    assert "has no key" in asking.refused("domains", "remove-key", domain, "two")


# ---------------------------------------------------------------------------------------------- hosts

SERVICE = {
    "spf_include": "spf.service.example",
    "bounce_domain": "back.service.example",
    "public_url": "https://send.service.example:8443/mail",
}


def in_use(row: dict[str, Any]) -> tuple[str, str]:
    """The hosts to which links and reports lead now."""
    return row["links"], row["return_path"]


def test_hosts_of_a_domain_are_used_while_their_records_are_right(
    settings: Settings, names: NameServer, tenant: Tenant, domain: str
) -> None:
    click, back = f"click.{domain}", f"back.{domain}"
    own_hosts = (f"https://{click}:8443/mail", f"bounces+…@{back}")
    shared = ("https://send.service.example:8443/mail", "bounces+…@back.service.example")
    with app_with(settings, dns_resolver=names.address, **SERVICE) as app:
        asking = Cli(app, tenant.name)
        for record in asking.json("domains", "add", domain)["records"]:
            if record["purpose"] in ("spf", "dkim"):
                names.texts[record["name"]] = [record["value"]]
        hosts = ("--tracking-host", click.upper(), "--return-path-host", back)
        row = asking.json("domains", "update", domain, *hosts)
        assert in_use(row) == shared
        tracking, spf, mx = row["records"][-3:]
        assert (tracking["name"], tracking["type"], tracking["value"]) == (click, "CNAME", "send.service.example.")
        assert (spf["name"], mx["name"], mx["value"]) == (back, back, "10 send.service.example.")
        names.aliases[click] = "Send.Service.example."
        names.texts[back] = [spf["value"]]
        assert in_use(asking.json("domains", "verify", domain)) == (own_hosts[0], shared[1]), "the MX is missing"
        names.exchanges[back] = ["10 send.service.example."]
        assert in_use(asking.json("domains", "verify", domain)) == own_hosts
        names.texts[back] = FAILING
        assert in_use(asking.json("domains", "verify", domain)) == own_hosts, "no answer changes nothing"
        names.aliases[click] = "elsewhere.example."
        assert in_use(asking.json("domains", "verify", domain)) == (shared[0], own_hosts[1])
        spf_of_domain = names.texts.pop(domain)
        assert in_use(asking.json("domains", "verify", domain)) == shared, "the domain is not verified any more"
        names.texts[domain] = spf_of_domain
        assert in_use(asking.json("domains", "verify", domain)) == shared, "no answer changes nothing"
        names.exchanges[back], names.texts[back] = ["10 send.service.example."], [spf["value"]]
        assert in_use(asking.json("domains", "verify", domain)) == (shared[0], own_hosts[1])
        assert in_use(asking.json("domains", "update", domain, "--return-path-host", "")) == shared


def test_a_host_of_another_domain_is_named_once_the_domain_is_verified(cli: Cli, domain: str) -> None:
    cli.text("domains", "add", domain)
    elsewhere = ("domains", "update", domain, "--tracking-host", f"click.agency-of-{domain}")
    assert "must be below a verified domain of the account" in cli.refused(*elsewhere)
    cli.text("domains", "add", domain, "--trust")
    assert cli.json(*elsewhere)["links"].startswith(f"http://click.agency-of-{domain}")
    assert cli.json("domains", "add", domain, "--trust")["links"].startswith(f"http://click.agency-of-{domain}")


def test_a_domain_above_proves_the_host_of_another_domain(cli: Cli, domain: str) -> None:
    """What is claimed before is used once the domain is."""
    cli.text("domains", "add", f"mail.{domain}")
    cli.text("domains", "add", domain, "--trust")
    row = cli.json("domains", "update", f"mail.{domain}", "--tracking-host", f"click.{domain}")
    assert f"click.{domain}" not in row["links"]
    assert f"click.{domain}" in cli.json("domains", "add", f"mail.{domain}", "--trust")["links"]


def test_the_hosts_that_an_account_had_are_bounded(cli: Cli, domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain_hosts, "MAX_HOSTS", 2)
    cli.text("domains", "add", domain, "--trust")
    for name in ("one", "two", "one"):
        cli.text("domains", "update", domain, "--tracking-host", f"{name}.{domain}")
    error = cli.refused("domains", "update", domain, "--tracking-host", f"three.{domain}")
    assert error == "tracking_host: the account has already used 2 hosts, which is the maximum"


def test_a_trusted_domain_uses_its_hosts_at_once(cli: Cli, domain: str) -> None:
    cli.text("domains", "add", domain, "--trust")
    row = cli.json("domains", "update", domain, "--return-path-host", f"back.{domain}")
    assert row["return_path"] == f"bounces+…@back.{domain}"


def test_a_host_that_cannot_be_one_is_refused(cli: Cli, domain: str) -> None:
    cli.text("domains", "add", domain)
    update = ("domains", "update", domain, "--tracking-host")
    assert "is not a domain name" in cli.refused(*update, "click")
    assert "must differ from the domain" in cli.refused(*update, domain.upper())
    assert "is also the return-path host" in cli.refused(*update, f"a.{domain}", "--return-path-host", f"a.{domain}")
