"""`?dry_run=true` (docs/dry-run.md): what a send would do, with nothing stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import func, select, true

from app.contacts.suppress import block, unsubscribe
from app.db.models import Base
from app.http.context import EXTENSION
from app.sends.dry_run import prepare
from app.services import Services
from tests.support.client import SENDS, bad_query, check_error, conflict, invalid
from tests.support.sends import SendsApi, file
from tests.support.tenants import Tenant, new_email, new_mobile, unique

Body = dict[str, Any]
URL = f"{SENDS}?dry_run=true"


def run(sends: SendsApi, body: Body, **options: Any) -> Body:
    """The answer of a dry run that finds no error."""
    answer = sends.tenant.api.post(URL, body, **options)
    assert answer.status_code == 200, answer.text
    report: Body = answer.get_json()
    return report


def recipients(sends: SendsApi, body: Body) -> list[Body]:
    reports: list[Body] = run(sends, body)["_embedded"]["recipients"]
    return reports


def only(sends: SendsApi, **changes: Any) -> Body:
    """The forecast of an email send to one recipient."""
    (report,) = recipients(sends, sends.email(**changes))
    return report


def row_counts(tenant: Tenant) -> dict[str, int]:
    """Every table with the number of its rows, where they belong to an account, of those of this one: what other tests
    have left to be written may be written meanwhile."""
    with tenant.services.database.read() as session:
        return {
            name: session.scalar(
                select(func.count())
                .select_from(table)
                .where(table.c.account_id == tenant.id if "account_id" in table.c else true())
            )
            or 0
            for name, table in Base.metadata.tables.items()
        }


def test_nothing_is_stored_and_no_event_and_no_group_arises(sends: SendsApi) -> None:
    body = sends.email(attachments=[file()], recipients=[{"email": new_email()}, {"contact_id": 1}])
    sms = sends.sms()
    before = row_counts(sends.tenant)
    run(sends, body)
    run(sends, sms)
    run(sends, body, headers={"Idempotency-Key": unique("key")})
    assert row_counts(sends.tenant) == before


def test_it_shows_what_all_recipients_have_in_common(sends: SendsApi) -> None:
    copied = f"copy@{sends.tenant.domain}"
    body = sends.email(bcc_address=copied, reply_to="reply@acme.example", priority="high", track_clicks=False)
    body["tags"] = [" login"]
    report = run(sends, body)
    del report["_embedded"]
    assert report == {
        "type": "email",
        "list_id": sends.list_id,
        "message_id": None,
        "group_id": None,
        "group_name": body["group_name"],
        "from_name": "Acme",
        "from_address": body["from_address"],
        "reply_to": "reply@acme.example",
        "bcc_address": copied,
        "priority": "high",
        "include_unsubscribed": False,
        "track_opens": True,
        "track_clicks": False,
        "send_at": None,
        "tags": ["login"],
        "invalid_markup": [],
        "_links": {"self": {"href": SENDS}},
    }


def test_each_recipient_has_its_metadata(sends: SendsApi) -> None:
    people = [{"email": new_email(), "metadata": {"seat": "7A"}}, {"email": new_email()}]
    reports = recipients(sends, sends.email(metadata={"order": "1"}, recipients=people))
    assert [report["metadata"] for report in reports] == [{"order": "1", "seat": "7A"}, {"order": "1"}]


def test_it_names_the_group_that_exists(sends: SendsApi) -> None:
    group = sends.send(sends.email()).group
    report = run(sends, sends.email(group_name=group.name))
    assert (report["group_id"], report["group_name"]) == (group.id, group.name)


def test_each_recipient_has_its_content(sends: SendsApi) -> None:
    ann = sends.tenant.new_contact(sends.list_id, email=new_email("ann"), first_name="Ann")
    body = sends.email(
        subject="For %%first_name**you%%",
        body_html="<p>Hi %%first_name**friend%%</p>",
        body_text=None,
        recipients=[{"contact_id": ann["id"]}, {"email": new_email("bob")}],
    )
    first, other = recipients(sends, body)
    assert (first["outcome"], first["reason"], first["detail"]) == ("send", None, None)
    assert (first["contact_id"], first["creates_contact"], first["email"]) == (ann["id"], False, ann["email"])
    assert (first["subject"], first["body_html"], first["body_text"]) == ("For Ann", "<p>Hi Ann</p>", "Hi Ann")
    assert first["wildcards_without_value"] == []
    assert (other["contact_id"], other["creates_contact"]) == (None, True)
    assert (other["subject"], other["body_text"]) == ("For you", "Hi friend")
    assert other["wildcards_without_value"] == [
        {"field": "subject", "name": "first_name", "fallback": "you"},
        {"field": "body_html", "name": "first_name", "fallback": "friend"},
    ]
    assert (first["mobile"], first["encoding"], first["segments"]) == (None, None, None)


def test_headers_are_those_of_the_mail(sends: SendsApi) -> None:
    body = sends.email(subject="Grüße " * 20, reply_to="reply@acme.example")
    (report,) = recipients(sends, body)
    headers = {header["name"]: header["value"] for header in report["headers"]}
    assert headers.pop("Subject").startswith("=?utf-8?")
    assert headers == {
        "From": f"Acme <{body['from_address']}>",
        "To": body["recipients"][0]["email"],
        "Reply-To": "reply@acme.example",
        "List-Unsubscribe": "<http://127.0.0.1:8000/u/dry-run-00000000000>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        "MIME-Version": "1.0",
        "Auto-Submitted": "auto-generated",
    }
    assert "List-Unsubscribe" not in {header["name"] for header in only(sends, include_unsubscribed=True)["headers"]}


@pytest.mark.parametrize("name", ["unsubscribe_link", "preferences_link"])
def test_a_link_of_a_dry_run_changes_nothing_for_anybody(sends: SendsApi, name: str) -> None:
    link = only(sends, body_text=f"%%{name}%%")["body_text"]
    assert link == f"http://127.0.0.1:8000/{name[0]}/dry-run-00000000000"
    assert sends.tenant.api.get(link.removeprefix("http://127.0.0.1:8000")).status_code == 404


def test_markup_without_effect_is_named_with_its_line(sends: SendsApi) -> None:
    body = sends.email(subject="%%first name%%", body_text="5%% for you\n%%plan:FROBS:x%%a%%plan:END%%\n%%code:HAS%%")
    assert run(sends, body)["invalid_markup"] == [
        {"field": "subject", "line": 1, "marker": "%%first name%%"},
        {"field": "body_text", "line": 2, "marker": "%%plan:FROBS:x%%"},
        {"field": "body_text", "line": 2, "marker": "%%plan:END%%"},
        {"field": "body_text", "line": 3, "marker": "%%code:HAS%%"},
    ]


def test_at_most_a_hundred_markers_of_an_attribute_are_named(sends: SendsApi) -> None:
    markers = run(sends, sends.email(body_text="%%a b%% " * 200))["invalid_markup"]
    assert [marker["line"] for marker in markers] == [1] * 100


def test_wildcards_and_attachments_count_where_they_are_shown(sends: SendsApi) -> None:
    text = (
        "%%code:HAS%%%%hidden%%%%code:ELSE%%%%shown%%%%code:END%% %%attachment:a.txt%% %%attachment:no.txt%% %%empty%%"
    )
    report = only(
        sends, body_text=text, recipients=[{"email": new_email(), "empty": "", "attachments": [file("a.txt")]}]
    )
    assert [wildcard["name"] for wildcard in report["wildcards_without_value"]] == [
        "shown",
        "attachment:no.txt",
        "empty",
    ]


def test_at_most_a_hundred_wildcards_of_a_recipient_are_named(sends: SendsApi) -> None:
    """Each of a hundred recipients had a hundred thousand."""
    report = only(sends, body_text="".join(f"%%w{number}%%" for number in range(5000)) + "x")
    assert [wildcard["name"] for wildcard in report["wildcards_without_value"]] == [
        f"w{number}" for number in range(100)
    ]


def test_what_is_read_for_a_recipient_counts_though_nothing_comes_of_it(
    sends: SendsApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "MAX_BUILT_BYTES", 30_000)
    text = "x" + "".join(f"%%w{number}%%" for number in range(5000))
    reports = recipients(sends, sends.email(body_text=text, recipients=[{"email": new_email()} for _ in range(3)]))
    assert [report["outcome"] for report in reports] == ["send", "not_rendered", "not_rendered"]


def test_recipients_are_skipped_for_the_reasons_of_a_send(sends: SendsApi, services: Services) -> None:
    tenant, path = sends.tenant, f"/v1/lists/{sends.list_id}/contacts"
    blocked, left, gone, unknown = (new_email() for _ in range(4))
    inactive = tenant.new_contact(sends.list_id, email=new_email(), is_active=False)
    without = tenant.new_contact(sends.list_id, mobile=new_mobile())
    off = tenant.new_contact(sends.list_id, email=new_email(), subscribed={"email": False})
    deleted = tenant.new_contact(sends.list_id, email=gone)
    assert tenant.api.delete(f"{path}/{deleted['id']}").status_code == 204
    with services.database.write() as transaction:
        block(transaction, tenant.id, "email", blocked, "test")
        unsubscribe(transaction, tenant.id, "email", left, None)
    named: list[Body] = [
        {"email": blocked},
        {"email": left},
        {"email": unknown},
        *({"contact_id": contact["id"]} for contact in (inactive, without, off, deleted)),
    ]
    body = sends.email(recipients=named)
    reports = recipients(sends, body)
    assert [(report["outcome"], report["reason"]) for report in reports] == [
        ("skip", "blocked"),
        ("skip", "unsubscribed"),
        ("send", None),
        ("skip", "contact_inactive"),
        ("skip", "address_missing"),
        ("skip", "unsubscribed"),
        ("skip", "invalid_contact_id"),
    ]
    assert (reports[0]["creates_contact"], reports[0]["body_text"], reports[0]["headers"]) == (True, None, [])
    included = recipients(sends, {**body, "include_unsubscribed": True})
    assert [report["outcome"] for report in included] == ["skip", "send", "send", "skip", "skip", "send", "skip"]


def test_a_new_contact_has_the_flags_that_it_would_have(sends: SendsApi, services: Services) -> None:
    left = new_email()
    with services.database.write() as transaction:
        unsubscribe(transaction, sends.tenant.id, "email", left, None)
    text = "%%email%% %%subscribed_email%% %%blocked_email%% %%is_active%% %%id%%"
    report = only(sends, body_text=text, include_unsubscribed=True, recipients=[{"email": left}])
    assert report["body_text"] == f"{left} false false true 0"


def test_a_text_message_has_encoding_and_segments(sends: SendsApi) -> None:
    mobile = new_mobile()
    named = [{"mobile": mobile, "code": value} for value in ("7", "é" * 160, "Ж", "Ж" * 60)]
    reports = recipients(sends, sends.sms(body_text="STOP %%code%%", recipients=named))
    assert [(report["encoding"], report["segments"]) for report in reports] == [
        ("gsm", 1),
        ("gsm", 2),
        ("ucs2", 1),
        ("ucs2", 1),
    ]
    assert (reports[0]["body_text"], reports[0]["mobile"], reports[0]["email"]) == ("STOP 7", mobile, None)
    assert (reports[0]["subject"], reports[0]["headers"], reports[0]["size"]) == (None, [], None)


def test_secret_values_are_masked_and_the_outcome_is_that_of_the_message(sends: SendsApi) -> None:
    secret = "https://acme.example/reset?token=9f2c7be014d85a36" * 3
    person = {"email": new_email(), "reset_link": secret, "name": "Ann"}
    sent = sends.email(
        subject="%%reset_link%%",
        body_html="<p>%%name%% %%reset_link%%</p>",
        recipients=[person],
        secret_values=["Reset_Link"],
        bcc_address=f"copy@{sends.tenant.domain}",
    )
    answer = sends.tenant.api.post(URL, sent, headers={"Idempotency-Key": unique("key")})
    assert "reset?token" not in answer.text
    (report,) = answer.get_json()["_embedded"]["recipients"]
    assert (report["subject"], report["body_html"]) == ("••••", "<p>Ann ••••</p>")
    (plain,) = recipients(sends, {**sent, "secret_values": []})
    assert (report["outcome"], report["size"]) == ("send", plain["size"])
    sms = sends.sms(body_text="STOP %%code%%", recipients=[{"mobile": new_mobile(), "code": "é" * 160}])
    (report,) = recipients(sends, {**sms, "secret_values": ["code"]})
    assert (report["body_text"], report["segments"]) == ("STOP ••••", 2)


def test_a_text_message_shows_its_opt_out_link(sends: SendsApi) -> None:
    (report,) = recipients(sends, sends.sms(unsubscribe_type="link", body_text="Hello"))
    assert report["body_text"] == "Hello\nOpt out: http://127.0.0.1:8000/u/dry-run-00000000000"


def test_a_message_that_would_turn_out_unsendable_fails(sends: SendsApi) -> None:
    (report,) = recipients(sends, sends.sms(unsubscribe_type="none", body_text="%%code%%"))
    assert (report["outcome"], report["reason"]) == ("fail", "content_missing")
    assert (report["body_text"], report["encoding"], report["segments"]) == (None, None, None)
    large = only(sends, body_text="%%x%%" * 250, recipients=[{"email": new_email(), "x": "y" * 10_000}])
    assert (large["outcome"], large["reason"], large["size"]) == ("fail", "too_large", None)
    assert large["detail"] == "body_text has more than 2097152 bytes once it is filled in"


def test_recipients_after_large_messages_are_not_rendered(sends: SendsApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "MAX_BUILT_BYTES", 3000)
    reports = recipients(
        sends, sends.email(body_text="x" * 2000, recipients=[{"email": new_email()} for _ in range(3)])
    )
    assert [report["outcome"] for report in reports] == ["send", "not_rendered", "not_rendered"]
    assert (reports[1]["creates_contact"], reports[1]["body_text"]) == (True, None)


def test_the_limit_of_a_whole_send_holds(sends: SendsApi, app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    services: Services = app.extensions[EXTENSION]
    small = replace(services, settings=replace(services.settings, max_send_bytes=5000))
    monkeypatch.setitem(app.extensions, EXTENSION, small)
    reports = recipients(
        sends, sends.email(body_text="x" * 2000, recipients=[{"email": new_email()} for _ in range(3)])
    )
    assert [(report["outcome"], report["reason"]) for report in reports] == [
        ("send", None),
        ("send", None),
        ("fail", "too_large"),
    ]


def test_errors_are_those_of_the_send(sends: SendsApi) -> None:
    tenant = sends.tenant
    for body in (
        sends.email(subject=None),
        sends.email(group_name=None),
        sends.email(list_id=2**62),
        sends.email(message_id=2**62),
        sends.email(from_address="ann@elsewhere.example", bcc_address="ann@elsewhere.example"),
        sends.email(list_id=tenant.add_list(system=True)),
        sends.email(recipients=[]),
        sends.email(attachments=[file("../x")]),
        sends.sms(body_text="no such word"),
    ):
        real, dry = tenant.api.post(SENDS, body).get_json(), tenant.api.post(URL, body).get_json()
        assert real["status"] == 422
        for answer in (real, dry):
            for name in ("id", "timestamp"):
                del answer[name]
        assert dry == real
    group = sends.send(sends.email()).group
    conflict(tenant.api.post(URL, sends.sms(group_name=group.name)), field="group_name")


def test_a_group_beyond_the_limit_is_refused(sends: SendsApi, app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    services: Services = app.extensions[EXTENSION]
    full = replace(services, settings=replace(services.settings, max_groups=0))
    monkeypatch.setitem(app.extensions, EXTENSION, full)
    invalid(sends.tenant.api.post(URL, sends.email()), "group_count_exceeded", field="group_name")


def test_the_parameter_is_true_or_false(sends: SendsApi) -> None:
    api = sends.tenant.api
    for value in ("1", "", "TRUE", "yes"):
        bad_query(api.post(f"{SENDS}?dry_run={value}", sends.email()), "invalid_query_syntax", field="dry_run")
    bad_query(api.post(f"{URL}&dry_run=true", sends.email()), "invalid_query_syntax", field="dry_run")
    bad_query(api.post(f"{SENDS}?dry_run:ne=true", sends.email()), "invalid_operator", field="dry_run")
    bad_query(api.get("/v1/lists?dry_run=true"), "parameter_not_available", field="dry_run")
    assert api.post(f"{SENDS}?dry_run=false", sends.email()).status_code == 202


def test_the_key_needs_the_scope_of_the_send(sends: SendsApi) -> None:
    check_error(sends.tenant.client("limited").post(URL, sends.email()), 403, "permission_denied")


def test_a_list_of_another_account_is_unknown(sends: SendsApi, other_tenant: Any) -> None:
    invalid(sends.tenant.api.post(URL, sends.email(list_id=other_tenant.add_list())), "invalid_id", field="list_id")


def test_it_takes_a_fixed_number_of_statements(sends: SendsApi, count_statements: Callable[[], Any]) -> None:
    def cost(count: int) -> int:
        body = sends.email(recipients=[{"email": new_email()} for _ in range(count)])
        with count_statements() as counted:
            run(sends, body)
        return int(counted.count)

    cost(1)
    assert cost(1) == cost(100)
