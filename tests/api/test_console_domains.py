"""Sending domains and senders of text messages in the console (docs/console-contents.md#domains-and-senders)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from app.accounts.domains import find_domain
from app.clock import this_second
from app.db.models import AuditEntry, DkimKey, Domain, SmsSender
from app.http.context import EXTENSION
from app.maintenance.sending_domains import domain_rows
from app.network_checks.run import NetworkChecker
from app.settings import Settings
from tests.support.apps import app_with
from tests.support.browser import Browser, new_link, operator, signed_in, words
from tests.support.cases import each
from tests.support.nameserver import FAILING, NameServer
from tests.support.tenants import Tenant, new_mobile, unique

PATH, SENDERS = "/console/domains", "/console/senders"


@pytest.fixture
def names() -> Iterator[NameServer]:
    with NameServer() as running:
        yield running


@pytest.fixture
def asking(settings: Settings, names: NameServer) -> Iterator[Flask]:
    """A service that queries the test's name server."""
    changes = {"dns_resolver": names.address, "spf_include": "spf.service.example"}
    changes["public_url"] = "https://send.service.example"
    with app_with(settings, **changes) as app:
        yield app


def manager(tenant: Tenant, app: Flask | None = None) -> Browser:
    """A browser that a link of the command line has signed in to the account."""
    browser = Browser(app or tenant.app)
    assert browser.follow_link(new_link(browser.app, tenant.id)).status_code == 303
    return browser


def run_checks(app: Flask) -> None:
    """What a worker does about the checks that were asked for."""
    checker = NetworkChecker(app.extensions[EXTENSION])
    checker.start()
    checker.wait()


def new_domain() -> str:
    return f"{unique('domain').lower()}.example"


def add(browser: Browser, name: str, **form: str) -> str:
    """The path of a domain that is added."""
    answer = browser.post(PATH, name=name, **form)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["Location"])


def row_of(tenant: Tenant, name: str, settings: Settings) -> Mapping[str, Any]:
    with tenant.services.database.read() as session:
        (row,) = domain_rows(session, settings, [find_domain(session, tenant.id, name)])
    return row


def acts(tenant: Tenant, kind: str) -> list[str]:
    with tenant.services.database.read() as session:
        criteria = AuditEntry.account_id == tenant.id, AuditEntry.object == kind
        return list(session.scalars(select(AuditEntry.action).where(*criteria).order_by(AuditEntry.id)))


def test_a_domain_is_added_checked_and_says_what_is_missing_record_by_record(
    tenant: Tenant, asking: Flask, names: NameServer
) -> None:
    browser, name = manager(tenant, asking), new_domain()
    settings = asking.extensions[EXTENSION].settings
    path = add(browser, f" {name.upper()} ")
    page = words(browser.get(path))
    assert "unverified · not checked yet" in page
    assert "SPF: the servers that send mail for the domain required not checked" in page
    assert "v=spf1 include:spf.service.example ~all" in page
    row = row_of(tenant, name, settings)
    spf, rsa, ed25519, dmarc = row["records"]
    for record in (rsa, dmarc):
        names.texts[record["name"]] = [record["value"]]
    names.texts[name] = ["v=spf1 include:other.example -all", "google-site-verification=1"]
    names.texts[ed25519["name"]] = ["v=DKIM1; k=ed25519; p=QUJD"]
    assert browser.post(f"{path}/check").headers["Location"] == path
    waiting = browser.get(path)
    assert "unverified · being checked" in words(waiting)
    assert "Verify now" not in words(waiting)
    assert f'<div id="live" hx-get="{path}" hx-trigger="every 2s"' in waiting.text
    run_checks(asking)
    assert '<div id="live">' in browser.get(path).text
    page = words(browser.get(path))
    assert "wrong · The record lacks include:spf.service.example. Add it to the published record." in page
    assert "Published now v=spf1 include:other.example -all" in page
    assert "google-site-verification" not in page
    assert "wrong · Another key is published." in page
    assert "DMARC: what receivers do with mail that fails the checks recommended right" in page
    assert "Sends from this domain are refused" in page
    assert f"{name} unverified spf, dkim" in words(browser.get(PATH))
    names.texts[name] = [spf["value"], "v=spf1 -all"]
    del names.texts[ed25519["name"]]
    browser.post(f"{path}/check")
    run_checks(asking)
    page = words(browser.get(path))
    assert "There are several records, so receivers ignore all of them. Merge them into one." in page
    assert "missing · No such record is published under this name." in page
    names.texts[name] = [spf["value"]]
    names.texts[dmarc["name"]] = FAILING
    browser.post(f"{path}/check")
    run_checks(asking)
    page = words(browser.get(path))
    assert "verified · checked" in page
    assert "unknown · The name servers did not answer." in page
    assert "You can send mail from this domain. Some recommended records below are missing or wrong." in page
    assert acts(tenant, "domain") == ["domain.created", "domain.verified"]


def test_one_request_asks_for_no_more_than_others_and_an_account_for_no_more_than_it_may(
    tenant: Tenant, asking: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = manager(tenant, asking)
    monkeypatch.setattr("app.network_checks.ask.MAX_OPEN_CHECKS", 2)
    first, second, third = (add(browser, new_domain()) for _ in range(3))
    assert [browser.post(f"{path}/check").status_code for path in (first, first, second)] == [303] * 3
    refused = browser.post(f"{third}/check")
    assert refused.status_code == 409
    assert "2 checks are running. Wait until one ends." in words(refused)
    assert browser.confirm(f"{first}/delete").status_code == 303
    run_checks(asking)
    assert browser.post(f"{third}/check").status_code == 303
    run_checks(asking)
    assert "being checked" not in words(browser.get(third))


def test_the_files_have_the_domains_the_records_and_the_senders(tenant: Tenant) -> None:
    browser, name, number = manager(tenant), new_domain(), new_mobile()
    path, list_id = add(browser, name), tenant.add_list("Customers")
    tenant.add_sender(number, list_id=list_id)
    head, *rows = csv.reader(io.StringIO(browser.get(f"{PATH}.csv").text))
    assert {row[head.index("name")]: row[head.index("verified")] for row in rows} == {
        tenant.domain: "true",
        name: "false",
    }
    head, *rows = csv.reader(io.StringIO(browser.get(f"{path}/records.csv").text))
    assert {row[head.index("purpose")] for row in rows} >= {"spf", "dkim", "dmarc"}
    head, *rows = csv.reader(io.StringIO(browser.get(f"{SENDERS}.csv").text))
    (row,) = rows
    assert row[1:5] == [number, "virtual_number", str(list_id), "Customers"]


def test_the_records_can_be_copied_as_a_zone_file(tenant: Tenant) -> None:
    browser, name = manager(tenant), new_domain()
    page = browser.get(add(browser, name))
    assert page.text.count('data-copy="the value of record') == page.text.count('data-copy="the name of record') >= 4
    assert f"{name}. IN TXT &#34;v=spf1 " in page.text
    assert "<button" in page.text
    assert ">Copy<" not in page.text, "without JavaScript nothing could copy"


def test_hosts_are_set_and_cleared(tenant: Tenant) -> None:
    browser, name = manager(tenant), new_domain()
    path = add(browser, name)
    form = {"tracking_host": f"links.{name}", "return_path_host": f"bounces.{name}"}
    assert browser.post(f"{path}/hosts", **form).status_code == 303
    page = words(browser.get(path))
    assert f"Tracking host: where links lead recommended not checked Name links.{name} Type " in page
    assert "Return path: where bounces go" in page
    refused = browser.post(f"{path}/hosts", tracking_host=name, return_path_host="x")
    assert refused.status_code == 422
    assert "must differ from the domain" in words(refused)
    assert f'value="{name}"' in refused.text
    same = browser.post(f"{path}/hosts", tracking_host=f"a.{name}", return_path_host=f"a.{name}")
    assert same.status_code == 409
    assert browser.post(f"{path}/hosts", tracking_host="", return_path_host="").status_code == 303
    assert "Tracking host: where links lead" not in words(browser.get(path))


def verify(browser: Browser, names: NameServer, path: str) -> str:
    """Publishes all records of a domain, and looks them up: the page then."""
    with browser.app.extensions[EXTENSION].database.read() as session:
        domain = session.get_one(Domain, int(path.rpartition("/")[2]))
        (row,) = domain_rows(session, browser.app.extensions[EXTENSION].settings, [domain])
    for record in row["records"]:
        if record["type"] == "CNAME":
            names.aliases[record["name"]] = record["value"]
        elif record["type"] == "MX":
            names.exchanges[record["name"]] = [record["value"]]
        else:
            names.texts[record["name"]] = [record["value"]]
    assert browser.post(f"{path}/check").status_code == 303
    run_checks(browser.app)
    return words(browser.get(path))


def test_a_host_belongs_to_the_account_that_proves_its_domain(
    tenant: Tenant, other_tenant: Tenant, asking: Flask, names: NameServer
) -> None:
    """Who only claims a domain gets none of its hosts, and stands in nobody's way; who has another domain gets no host
    below it."""
    thief, owner, name = manager(other_tenant, asking), manager(tenant, asking), new_domain()
    claimed, own_path = add(thief, name), add(thief, new_domain())
    form = {"tracking_host": f"click.{name}", "return_path_host": f"back.{name}"}
    assert thief.post(f"{claimed}/hosts", **form).status_code == 303
    path = add(owner, name)
    assert owner.post(f"{path}/hosts", **form).status_code == 303
    assert f"Links lead to https://click.{name}" in verify(owner, names, path)
    verify(thief, names, own_path)
    for given in ({"tracking_host": form["tracking_host"]}, {"return_path_host": form["return_path_host"]}):
        refused = thief.post(f"{own_path}/hosts", **{"tracking_host": "", "return_path_host": "", **given})
        assert refused.status_code == 422
        assert "must be below a verified domain of the account" in words(refused)
    thief.post(f"{claimed}/check")
    assert "Links lead to https://send.service.example" in words(thief.get(claimed))
    assert owner.confirm(f"{path}/delete").status_code == 303
    assert add(owner, name)


def test_of_two_accounts_that_prove_a_domain_one_has_each_host(
    tenant: Tenant, other_tenant: Tenant, asking: Flask, names: NameServer
) -> None:
    first, second, name = manager(tenant, asking), manager(other_tenant, asking), new_domain()
    first_path, another = add(first, name), add(second, name)
    shared = {"tracking_host": f"click.{name}", "return_path_host": ""}
    assert second.post(f"{another}/hosts", **shared).status_code == 303
    assert first.post(f"{first_path}/hosts", **shared).status_code == 303
    assert f"Links lead to https://click.{name}" in verify(first, names, first_path)
    page = verify(second, names, another)
    assert "You can send mail from this domain" in page
    assert "taken · This host belongs to another account." in page
    assert "Links lead to https://send.service.example" in page
    second.post(f"{another}/hosts", tracking_host="", return_path_host="")
    assert second.post(f"{another}/hosts", **shared).status_code == 409
    first.post(f"{first_path}/hosts", tracking_host="", return_path_host="")
    assert second.post(f"{another}/hosts", **shared).status_code == 303
    assert f"Links lead to https://click.{name}" in verify(second, names, another)


def test_of_claims_at_the_same_time_one_wins(tenant: Tenant, other_tenant: Tenant) -> None:
    """Two accounts claim a host that both could have, and a number, at the same time."""
    name, number = new_domain(), new_mobile()
    form = {"address": number, "kind": "number", "list": "", "messages_per_second": ""}
    paths = {browser_tenant.id: add(manager(browser_tenant), name) for browser_tenant in (tenant, other_tenant)}
    for account_id in paths:
        assert operator(tenant.app).post(f"{PATH}?account={account_id}", name=name, trust="1").status_code == 303
    browsers = [operator(tenant.app) for _ in paths]

    def claim(browser: Browser, account_id: int) -> tuple[int, int]:
        hosts = {"tracking_host": f"click.{name}", "return_path_host": ""}
        answers = (
            browser.post(f"{paths[account_id]}/hosts?account={account_id}", **hosts),
            browser.post(f"{SENDERS}?account={account_id}", **form),
        )
        return answers[0].status_code, answers[1].status_code

    with ThreadPoolExecutor(2) as threads:
        host_statuses, number_statuses = zip(*threads.map(claim, browsers, paths), strict=True)
    assert sorted(host_statuses) == sorted(number_statuses) == [303, 409]


def test_an_operator_names_hosts_of_other_domains(tenant: Tenant, other_tenant: Tenant) -> None:
    name, elsewhere = new_domain(), f"click.{new_domain()}"
    browser = operator(tenant.app)
    path = browser.post(f"{PATH}?account={tenant.id}", name=name, trust="1")
    (domain_path, _, query) = path.headers["Location"].partition("?")
    assert browser.post(f"{domain_path}/hosts?{query}", tracking_host=elsewhere, return_path_host="").status_code == 303
    assert f"Links lead to http://{elsewhere}" in words(browser.get(f"{domain_path}?{query}"))
    path = browser.post(f"{PATH}?account={other_tenant.id}", name=name, trust="1")
    (another, _, query) = path.headers["Location"].partition("?")
    refused = browser.post(f"{another}/hosts?{query}", tracking_host=elsewhere, return_path_host="")
    assert refused.status_code == 409
    assert "is the host of another account" in words(refused)


def test_keys_are_made_anew_and_a_domain_is_deleted(tenant: Tenant) -> None:
    browser, name = manager(tenant), new_domain()
    path = add(browser, name)
    assert browser.post(f"{path}/rotate").status_code == 303
    assert words(browser.get(path)).count(" pending since") == 2
    assert browser.post(f"{path}/rotate").status_code == 409
    assert browser.confirm(f"{path}/delete").headers["Location"] == PATH
    assert browser.get(path).status_code == 404
    assert browser.post(f"{path}/check").status_code == 404
    with tenant.services.database.read() as session:
        assert session.scalars(select(DkimKey).where(DkimKey.account_id == tenant.id)).all() == []
    assert acts(tenant, "domain") == ["domain.created", "domain.updated", "domain.deleted"]


@each(
    ("name", "status"), [("", 422), ("localhost", 422), ("x\0y.example", 422), ("a" * 300, 422), ("<b>.example", 422)]
)
def test_what_is_no_domain_is_refused(tenant: Tenant, name: str, status: int) -> None:
    answer = manager(tenant).post(PATH, name=name)
    assert answer.status_code == status
    assert 'role="alert"' in answer.text
    assert "<b>" not in answer.text


def test_only_operators_trust_a_domain(tenant: Tenant) -> None:
    name, browser = new_domain(), operator(tenant.app)
    assert "Trust it" not in words(manager(tenant).get(PATH))
    assert "unverified" in words(manager(tenant).get(add(manager(tenant), name, trust="1")))
    answer = browser.post(f"{PATH}?account={tenant.id}", name=name, trust="1")
    assert answer.status_code == 303
    path = answer.headers["Location"]
    assert path.endswith(f"?account={tenant.id}")
    page = words(browser.get(path))
    assert "trusted" in page
    assert "an operator trusts it without checking its records" in page


def test_senders_are_approved_and_withdrawn(tenant: Tenant) -> None:
    browser, number, list_id = manager(tenant), new_mobile(), tenant.add_list("Customers")
    approving, path = operator(tenant.app), f"{SENDERS}?account={tenant.id}"
    form = {
        "address": number,
        "kind": "virtual_number",
        "list": "Customers",
        "messages_per_second": "2.5",
        "note": "Replies",
    }
    assert approving.post(path, **form).headers["Location"] == f"{PATH}?account={tenant.id}"
    assert approving.post(path, address="Acme", kind="alphanumeric", list="", messages_per_second="").status_code == 303
    page = words(browser.get(PATH))
    assert f"{number} virtual number (people can reply) Customers 2.5 Replies" in page
    assert "Acme name (nobody can reply) any no limit none" in page
    with tenant.services.database.read() as session:
        made = session.scalars(select(SmsSender).where(SmsSender.address == number)).one()
    assert (made.account_id, made.kind, made.list_id, made.messages_per_second) == (
        *(tenant.id, "virtual_number", list_id),
        2.5,
    )
    for changes, status in (
        ({"address": number}, 409),
        ({"address": "+61"}, 422),
        ({"address": new_mobile(), "kind": "fax"}, 422),
        ({"address": new_mobile(), "messages_per_second": "fast"}, 422),
        ({"address": new_mobile(), "messages_per_second": "nan"}, 422),
        ({"address": new_mobile(), "messages_per_second": "1e9"}, 422),
        ({"address": new_mobile(), "list": "Nowhere"}, 422),
        ({"address": new_mobile(), "list": "Customers\0"}, 422),
    ):
        refused = approving.post(path, **{**form, **changes})
        assert refused.status_code == status, changes
        assert f'value="{changes["address"]}"' in refused.text
    assert browser.confirm(f"{SENDERS}/{made.id}/delete").status_code == 303
    assert number not in words(browser.get(PATH))
    assert acts(tenant, "sender") == ["sender.created", "sender.created", "sender.deleted"]


def test_a_manager_approves_no_sender(tenant: Tenant, other_tenant: Tenant) -> None:
    """Nothing proves whose a number or a name is: who approved the number of another account would text under it, and
    read the replies."""
    number = new_mobile()
    other_tenant.add_sender(number)
    browser = manager(tenant)
    for address, kind in ((number, "virtual_number"), (new_mobile(), "number"), ("MYBANK", "alphanumeric")):
        answer = browser.post(SENDERS, address=address, kind=kind, list="", messages_per_second="", shared="1")
        assert answer.status_code == 403
    assert "Approve a sender" not in words(browser.get(PATH))
    with tenant.services.database.read() as session:
        assert session.scalars(select(SmsSender).where(SmsSender.account_id == tenant.id)).all() == []


def test_an_operator_approves_the_number_of_another_account_only_as_shared(
    tenant: Tenant, other_tenant: Tenant
) -> None:
    number, browser = new_mobile(), operator(tenant.app)
    other_tenant.add_sender(number)
    form = {"address": number, "kind": "virtual_number", "list": "", "messages_per_second": ""}
    refused = browser.post(f"{SENDERS}?account={tenant.id}", **form)
    assert refused.status_code == 409
    assert f"belongs to the account '{other_tenant.name}'" in words(refused)
    assert browser.post(f"{SENDERS}?account={tenant.id}", **form, shared="1").status_code == 303


def test_keys_are_offered_no_changes(tenant: Tenant) -> None:
    path = add(manager(tenant), new_domain())
    standard = signed_in(tenant)
    assert "Verify now" not in words(standard.get(path))
    assert "Add a domain" not in words(standard.get(PATH))


def test_a_page_takes_as_many_statements_for_many_as_for_one(
    tenant: Tenant, count_statements: Callable[[], Any]
) -> None:
    browser = signed_in(tenant)

    def statements() -> int:
        with count_statements() as counter:
            assert browser.get(PATH).status_code == 200
        return sum(statement.startswith("SELECT") for statement in counter.statements)

    tenant.add_sender(new_mobile())
    few = statements()
    for _ in range(5):
        tenant.add_sender(new_mobile(), list_id=tenant.add_list())
        tenant.add(Domain, name=new_domain(), creation_time=this_second())
    assert statements() == few
