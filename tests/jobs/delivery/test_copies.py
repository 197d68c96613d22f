"""The blind copy: a separate mail without links that act for the recipient (docs/sending.md#blind-copies)."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app.sends.delivery.drain import drain
from app.sends.outcomes.attempt_result import journal_folder, scan_journals
from app.services import Services
from tests.jobs.delivery.conftest import Changed, body, parsed
from tests.support.client import Client
from tests.support.rows import Rows
from tests.support.sends import SendsApi
from tests.support.tenants import Tenant, new_email
from tests.unit.transports.mailserver import DROP, MailServer, ReceivedMail

COPY = "archive@acme.example"
OWN = '<a href="%%unsubscribe_link%%">leave</a> <a href="%%preferences_link%%">choose</a>'
LINKS = f'<a href="https://a.example/x">x</a> {OWN}'
HTML = f"<html><body><p>Hi %%name%%</p>{LINKS}</body></html>"
TEXT = "Hi %%name%%: https://a.example/y or leave: %%unsubscribe_link%% or choose: %%preferences_link%%"
OWN_LINK = re.compile(r"https?://[^\s\"<>]*(/[upoc]/[^\s\"<>]+)")
TAKEN_MAIL = "250 2.0.0 queued"


@pytest.fixture
def pair(tenant: Tenant, worker: Services, mail_server: MailServer) -> tuple[ReceivedMail, ReceivedMail]:
    """A tracked mail to a recipient of a list, and its blind copy."""
    sends = SendsApi(tenant)
    person = {"email": new_email(), "name": "Ann"}
    changes: dict[str, Any] = {"body_html": HTML, "body_text": TEXT, "bcc_address": f"archive@{tenant.domain}"}
    sends.send(sends.email(recipients=[person], track_opens=True, track_clicks=True, **changes))
    drain(worker)
    mail, copy = mail_server.mails
    assert (mail.recipients, copy.recipients) == ([person["email"]], [f"archive@{tenant.domain}"])
    return mail, copy


def test_the_copy_has_the_text_of_the_mail_and_no_link_that_acts_for_the_recipient(
    pair: tuple[ReceivedMail, ReceivedMail], anon: Client
) -> None:
    mail, copy = (parsed(message.content) for message in pair)
    for name in ("From", "To", "Subject", "Date", "Message-ID"):
        assert copy[name] == mail[name]
    assert (mail["List-Unsubscribe"] is None, copy["List-Unsubscribe"], copy["List-Unsubscribe-Post"]) == (
        False,
        None,
        None,
    )
    assert 'href="https://a.example/x"' in body(copy, "html")
    assert "https://a.example/y" in body(copy, "plain")
    assert "<img" not in body(copy, "html")
    links = OWN_LINK.findall(body(copy, "html") + body(copy, "plain"))
    assert set(links) == {"/u/copy", "/p/copy"}
    assert [link[:3] for link in OWN_LINK.findall(body(mail, "html"))] == ["/c/", "/u/", "/p/", "/o/"]


@pytest.mark.parametrize("path", ["/u/copy", "/p/copy"])
def test_a_link_of_a_copy_changes_nothing_for_anybody(
    pair: tuple[ReceivedMail, ReceivedMail], tenant: Tenant, anon: Client, path: str
) -> None:
    """The page of the link says that the link does not work."""
    assert (anon.get(path).status_code, anon.request("POST", path).status_code) == (404, 404)
    (group,) = tenant.api.get("/v1/transactional-groups").get_json()["_embedded"]["transactional-groups"]
    assert (group["unsubscribed"], group["opened"], group["clicked"], group["delivered"]) == (0, 0, 0, 1)


def test_a_send_without_a_copy_is_one_mail(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    rows.add_send(["ann@example.com"])
    drain(worker)
    assert [mail.recipients for mail in mail_server.mails] == [["ann@example.com"]]


def test_each_mail_is_followed_by_its_copy(rows: Rows, make_worker: Changed, mail_server: MailServer) -> None:
    """The order is kept with pipelining, too. Other mails may come between pairs of a mail and its copy, never within a
    pair."""
    names = [f"p{number}@example.com" for number in range(5)]
    rows.add_send(names, bcc_address=COPY)
    rows.add_send(["alone@example.com"])
    drain(make_worker(send_connections=1))
    order = [mail.recipients[0] for mail in mail_server.mails if mail.recipients != ["alone@example.com"]]
    assert order[1::2] == [COPY] * 5
    assert sorted(order[::2]) == names


@pytest.mark.parametrize("reply", ["550 5.1.1 no such user", "451 4.3.0 later"])
def test_a_mail_that_is_not_accepted_has_no_copy(
    rows: Rows, worker: Services, mail_server: MailServer, reply: str
) -> None:
    """A deferred mail would be copied at each attempt otherwise."""
    mail_server.reply("ann@example.com", reply)
    rows.add_send(["ann@example.com"], bcc_address=COPY)
    drain(worker)
    assert mail_server.mails == []


def test_a_retried_mail_is_copied_once(rows: Rows, make_worker: Changed, mail_server: MailServer) -> None:
    mail_server.reply(".", "451 4.3.0 later", "451 4.3.0 later")
    (ann,) = rows.add_send(["ann@example.com"], bcc_address=COPY)
    worker = make_worker(retry_delay=0.0)
    for _ in range(3):
        rows.make_due([ann])
        drain(worker)
    assert Counter(mail.recipients[0] for mail in mail_server.mails) == {"ann@example.com": 1, COPY: 1}
    assert rows.states([ann]) == ["delivered"]


@pytest.mark.parametrize(
    ("script", "reply_start"),
    [
        ((COPY, "550 5.1.1 no archive"), "550 5.1.1 no archive"),
        ((COPY, "451 4.3.0 later"), "451 4.3.0 later"),
        ((".", TAKEN_MAIL, DROP), "the connection was lost after the message was sent"),
    ],
)
def test_the_result_of_a_copy_is_mentioned_in_the_timeline_only(
    rows: Rows, worker: Services, mail_server: MailServer, script: tuple[str, ...], reply_start: str
) -> None:
    """The recipient has one result: that of its mail."""
    mail_server.reply(*script)
    (ann,) = rows.add_send(["ann@example.com"], bcc_address=COPY)
    drain(worker)
    assert rows.states([ann]) == ["delivered"]
    ((step, detail),) = rows.steps(ann)
    assert (step, str(detail).startswith(f"{TAKEN_MAIL}; no copy to {COPY}: {reply_start}")) == ("sent", True), detail
    with scan_journals(journal_folder(worker.settings)) as journals:
        assert [journal.results() for journal in journals] == [[]]


def test_a_hostile_copy_address_injects_no_command(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    (ann,) = rows.add_send(["ann@example.com"], bcc_address="a@b.example>\r\nRCPT TO:<c@d.example")
    drain(worker)
    assert [mail.recipients for mail in mail_server.mails] == [["ann@example.com"]]
    assert rows.states([ann]) == ["delivered"]


def test_the_folder_transport_writes_the_copy_next_to_the_mail(
    rows: Rows, make_worker: Changed, tmp_path: Path
) -> None:
    worker = make_worker(email_transport_url=f"file://{tmp_path}/mail")
    (ann,) = rows.add_send(["ann@example.com"], bcc_address=COPY)
    drain(worker)
    uuid = rows.recipient(ann).uuid
    assert {path.name for path in (tmp_path / "mail").iterdir()} == {f"{uuid}.eml", f"{uuid}-bcc.eml"}


def test_with_include_unsubscribed_a_mail_has_no_unsubscribe_headers(
    tenant: Tenant, worker: Services, mail_server: MailServer
) -> None:
    """People who unsubscribe would still get the next such mail."""
    sends = SendsApi(tenant)
    for includes_unsubscribed in (True, False):
        sends.send(sends.email(include_unsubscribed=includes_unsubscribed))
        drain(worker)
    service, other = (parsed(mail.content) for mail in mail_server.mails)
    assert (service["List-Unsubscribe"], service["List-Unsubscribe-Post"]) == (None, None)
    assert other["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
