"""What is refused when mail is sent by SMTP, with the whole answer (docs/smtp-submission.md#answers): nothing of it is
written."""

from __future__ import annotations

from collections.abc import Callable
from email.message import EmailMessage

import pytest
from sqlalchemy import insert, update

from app.clock import now
from app.db.models import Account, ApiKey, Contact, Domain, Group, IdempotencyRecord, Recipient, Send, table_of
from app.db.models.groups import RESULT_COUNTERS
from app.distribution import COMMAND_LINE
from tests.conftest import test_settings
from tests.support.apps import app_with
from tests.support.own_postgres import OwnPostgres
from tests.support.sends import rows_of
from tests.support.servers import short_folder, wait_until
from tests.support.submitting import Application, Reply, listening, logged_in, mail
from tests.support.tenants import Tenant, new_email, new_tenant, unique

Change = Callable[[EmailMessage, Tenant], None]


def set_field(name: str, value: str) -> Change:
    def change(written: EmailMessage, tenant: Tenant) -> None:
        del written[name]
        written[name] = value.replace("DOMAIN", tenant.domain)

    return change


def remove(name: str) -> Change:
    def change(written: EmailMessage, _tenant: Tenant) -> None:
        del written[name]

    return change


def empty_body(written: EmailMessage, _tenant: Tenant) -> None:
    written.set_content(" \n")


def sms_group(written: EmailMessage, tenant: Tenant) -> None:
    """A group of text messages is named in the mail."""
    groups, moment = table_of(Group), now()
    values = {
        "account_id": tenant.id,
        "type": "sms",
        "name": "Codes",
        "creation_time": moment,
        "last_sent_time": moment,
    }
    counters = dict.fromkeys(("sent", *RESULT_COUNTERS), 0)
    with tenant.services.database.write() as transaction:
        transaction.connection().execute(insert(groups), {**values, **counters})
    written["X-TMS-Group"] = "Codes"


def two_faults(written: EmailMessage, tenant: Tenant) -> None:
    for change in (remove("Subject"), set_field("X-TMS-Transport", "fast")):
        change(written, tenant)


REFUSED: dict[str, tuple[Change, str]] = {
    "no list": (
        remove("X-TMS-List"),
        "5.6.0 The mail has no list. Name one with the field X-TMS-List, or give the key a list of its own. (required)",
    ),
    "an unknown list": (
        set_field("X-TMS-List", "999999999"),
        "5.6.0 list_id: there is no list 999999999. (invalid_id)",
    ),
    "a list beyond all ids": (
        set_field("X-TMS-List", "9" * 30),
        "5.6.0 X-TMS-List must occur once and be the id of a list. (invalid_string)",
    ),
    "no subject": (
        remove("Subject"),
        "5.6.0 Neither the request nor the message has a subject. (subject_empty)",
    ),
    "no text": (
        empty_body,
        "5.6.0 No content: give body_html or body_text, or a message_id that has them. (content_missing)",
    ),
    "a sender of another domain": (
        set_field("From", "a@elsewhere.example"),
        "5.7.1 from_address: the domain elsewhere.example is not configured in the account. Send from one that is, or "
        "ask the operator to add it, with `tms domains add elsewhere.example` or in the console, under Domains. "
        "(invalid_from_address_domain)",
    ),
    "a sender of a subdomain": (
        set_field("From", "a@sub.DOMAIN"),
        "5.7.1 from_address: the domain sub.DOMAIN is not configured in the account. Send from one that is, or ask the "
        "operator to add it, with `tms domains add sub.DOMAIN` or in the console, under Domains. "
        "(invalid_from_address_domain)",
    ),
    "an unknown transport": (
        set_field("X-TMS-Transport", "fast"),
        "5.6.0 transport: the account cannot use the transport 'fast' for email sends. (invalid_id)",
    ),
    "a group of text messages": (
        sms_group,
        "5.6.0 group_name: the group GROUP is for sms, and this is a send of email. (conflict)",
    ),
    "several errors": (
        two_faults,
        "5.6.0 transport: the account cannot use the transport 'fast' for email sends. (invalid_id)\n"
        "5.6.0 Neither the request nor the message has a subject. (subject_empty)",
    ),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_mail_that_breaks_a_rule_is_refused_with_its_reason(
    tenant: Tenant, list_id: int, application: Application, fault: str
) -> None:
    change, answer = REFUSED[fault]
    written = mail(tenant, list_id)
    change(written, tenant)
    group_id = next((str(row.id) for row in rows_of(tenant, Group)), "")
    code, text = application.submit(written, new_email())
    expected = answer.replace("DOMAIN", tenant.domain).replace("GROUP", group_id)
    assert (code, text.replace(COMMAND_LINE, "tms")) == (550, expected)
    assert [rows_of(tenant, model) for model in (Send, Recipient, Contact, IdempotencyRecord)] == [[], [], [], []]
    assert application.submit(mail(tenant, list_id), new_email())[0] == 250


def test_an_account_whose_owner_is_not_confirmed_sends_nothing(
    tenant: Tenant, list_id: int, application: Application
) -> None:
    with tenant.services.database.write() as transaction:
        transaction.execute(update(Account).where(Account.id == tenant.id).values(owner_confirmed=False))
    answer = application.submit(mail(tenant, list_id), new_email())
    reason = "The account owner's email address is not confirmed yet. Ask the operator to mark it as confirmed."
    assert answer == (550, f"5.7.1 {reason} (account_owner_unverified)")


def test_the_commands_of_an_envelope_have_their_own_answers(
    tenant: Tenant, list_id: int, application: Application
) -> None:
    """Further recipients are refused one by one, so that a mail server sends the mail again to them."""
    client = application.client

    def answer(line: str) -> Reply:
        code, text = client.docmd(line)
        return code, text.decode()

    assert answer("RCPT TO:<ann@example.com>") == (503, "Error: need MAIL command")
    assert answer("DATA") == (503, "Error: need RCPT command")
    assert answer(f"MAIL FROM:<{application.sender}> SIZE=99999999") == (
        552,
        "Error: message size exceeds fixed maximum message size",
    )
    assert answer(f"MAIL FROM:<{application.sender}> SIZE=1000 BODY=8BITMIME") == (250, "2.1.0 ok")
    for address in ("ann", "ann@example", f"{'a' * 65}@example.com", "=?utf-8?q?a?=@example.com", ""):
        assert answer(f"RCPT TO:<{address}>") == (553, "5.1.3 This is not an email address"), address
    for number in range(100):
        assert answer(f"RCPT TO:<{number}-{unique()}@example.com>") == (250, "2.1.5 ok")
    for _ in range(2):
        assert answer("RCPT TO:<ann@example.com>") == (
            452,
            "4.5.3 A mail has at most 100 recipients; send it again to the others",
        )
    assert client.data(mail(tenant, list_id).as_bytes())[0] == 250
    assert len(rows_of(tenant, Recipient)) == 100


def test_a_mail_that_is_too_large_is_refused(tenant: Tenant, list_id: int) -> None:
    with listening(tenant.services, submission_max_bytes=2000) as port, logged_in(port, tenant) as application:
        written = mail(tenant, list_id)
        written.set_content("a line\n" * 1000)
        assert application.submit(written, new_email()) == (552, "5.3.4 too much mail data")
        assert application.submit(mail(tenant, list_id), new_email())[0] == 250


def test_a_mail_is_kept_by_its_client_while_the_database_is_away(own_postgres: OwnPostgres, redis_url: str) -> None:
    with (
        short_folder() as folder,
        app_with(test_settings(folder, DATABASE_URL=own_postgres.url, REDIS_URL=redis_url)) as app,
    ):
        tenant = new_tenant(app)
        list_id, ann = tenant.add_list(), new_email()
        written = mail(tenant, list_id, To=ann)
        with listening(tenant.services) as port, logged_in(port, tenant) as application:
            application.client.mail(application.sender)
            application.client.rcpt(ann)
            with own_postgres.away():
                answers = [application.client.data(written.as_bytes()), application.client.mail(application.sender)]
                assert answers == [(451, b"4.3.0 not now, try again later")] * 2
            wait_until(lambda: application.client.mail(application.sender)[0] == 250, "the database is back")
            application.client.rset()
            assert len(application.uuids(written, ann)) == 1
        assert len(rows_of(tenant, Recipient)) == 1


def test_a_domain_that_is_lost_during_a_session_is_lost_to_it(
    tenant: Tenant, list_id: int, application: Application
) -> None:
    assert application.submit(mail(tenant, list_id), new_email())[0] == 250
    with tenant.services.database.write() as transaction:
        transaction.execute(update(Domain).where(Domain.account_id == tenant.id).values(verified_time=None))
    assert application.submit(mail(tenant, list_id), new_email())[0] == 550


def test_the_list_of_the_key_is_that_of_mails_without_one(
    tenant: Tenant, list_id: int, application: Application
) -> None:
    other = tenant.add_list()
    with tenant.services.database.write() as transaction:
        transaction.execute(update(ApiKey).where(ApiKey.account_id == tenant.id).values(list_id=list_id))
    assert application.submit(mail(tenant), new_email())[0] == 250
    assert application.submit(mail(tenant, other), new_email())[0] == 250
    assert sorted(row.list_id or 0 for row in rows_of(tenant, Recipient)) == sorted([list_id, other])
