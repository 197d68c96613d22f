"""The listener: the mail that it accepts by SMTP and LMTP, and the mail that it refuses."""

from __future__ import annotations

import asyncio
import smtplib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

import pytest
from sqlalchemy import text

from app.accounts.domains import add_domain_without_keys
from app.inbound.domain_reports.address import report_address
from app.inbound.email import listener
from app.inbound.email.listener import MAX_WAITING_REPORTS, Listener
from app.services import Services
from app.tracking.tokens import return_path, unsubscribe_address
from tests.jobs.delivery.conftest import Changed
from tests.support.asyncio_servers import in_thread
from tests.support.mail_reports import delivery_failure, dmarc_report, plain, with_attachment
from tests.support.rows import FROM, Rows
from tests.support.servers import PATIENCE, wait_until
from tests.support.tenants import unique


def listening(services: Services) -> AbstractContextManager[int]:
    """The port of a listener that runs in a thread."""

    async def server() -> asyncio.Server:
        listener = Listener(services)
        await listener.listen("127.0.0.1", 0)
        return listener.servers[0]

    return in_thread(server())


@pytest.fixture
def recipient_id(rows: Rows) -> int:
    """The id of a delivered mail."""
    (made,) = rows.add_send(["ann@example.com"])
    rows.change([made], state="delivered", attempts=1)
    return made


@pytest.mark.parametrize("client_class", [smtplib.SMTP, smtplib.LMTP])
def test_a_bounce_report_is_accepted(
    worker: Services, rows: Rows, recipient_id: int, client_class: type[smtplib.SMTP]
) -> None:
    """The envelope recipient identifies the mail, whatever the header says; the envelope sender is empty."""
    to = return_path(worker.settings, recipient_id, FROM)
    report = delivery_failure("undisclosed@elsewhere.example", "ann@example.com")
    with listening(worker) as port, client_class("127.0.0.1", port, timeout=PATIENCE) as client:
        assert client.sendmail("<>", [to], report) == {}
        assert rows.recipient(recipient_id).state == "bounced"
        assert client.sendmail("<>", [to], report) == {}
    assert rows.group_of(recipient_id).bounced == 1


def test_only_signed_addresses_and_those_of_the_operator_are_accepted(
    make_worker: Changed, rows: Rows, recipient_id: int
) -> None:
    worker = make_worker(bounce_domain="bounces.acme.example")
    to = return_path(worker.settings, recipient_id, FROM)
    unsubscribe = unsubscribe_address(worker.settings, recipient_id)
    with listening(worker) as port, smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE) as client:
        client.ehlo()
        for address in (to, to.upper(), unsubscribe, "postmaster@anything.example", "Abuse@acme.example"):
            client.docmd("MAIL FROM:<>")
            assert client.docmd(f"RCPT TO:<{address}>")[0] == 250, address
            assert client.docmd(f"RCPT TO:<{to}>") == (452, b"4.5.3 one recipient at a time")
            client.rset()
        client.docmd("MAIL FROM:<ann@example.com>")
        for address in ("ann@example.com", f"x{to}", to.replace("+", "+a"), "bounces@acme.example"):
            assert client.docmd(f"RCPT TO:<{address}>") == (550, b"5.1.1 no such address here")
    assert rows.recipient(recipient_id).state == "delivered"


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("<" + "(" * 450 + ">", 550),
        ("<" * 400, 553),
        ("<ann@example.com", 553),
        ("ann@example.com", 550),
        ('<"ann lee"@example.com>', 550),
        ("<@relay.example:ann@example.com>", 550),
        ("<ann@example.com> X=(((", 555),
    ],
)
def test_a_malformed_address_gets_a_permanent_answer(worker: Services, address: str, code: int) -> None:
    """Nested comments made the library's parser fail, and the client retry for ever."""
    with listening(worker) as port, smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE) as client:
        client.ehlo()
        client.docmd("MAIL FROM:<>")
        assert client.docmd(f"RCPT TO:{address}")[0] == code


def test_a_reply_to_the_return_path_is_accepted_and_ignored(worker: Services, rows: Rows, recipient_id: int) -> None:
    to = return_path(worker.settings, recipient_id, FROM)
    with listening(worker) as port, smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE) as client:
        assert client.sendmail("ann@example.com", [to], plain(to)) == {}
    assert (rows.recipient(recipient_id).state, rows.steps(recipient_id)) == ("delivered", [])


def test_a_mail_that_is_too_large_is_refused(make_worker: Changed, rows: Rows, recipient_id: int) -> None:
    worker = make_worker(inbound_max_bytes=2000)
    to = return_path(worker.settings, recipient_id, FROM)
    with listening(worker) as port, smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE) as client:
        with pytest.raises(smtplib.SMTPSenderRefused, match="message size exceeds") as announced:
            client.sendmail("<>", [to], plain(to, "a line\r\n" * 1000))
        assert announced.value.smtp_code == 552
        client.ehlo_resp, client.does_esmtp = None, False
        client.helo()
        with pytest.raises(smtplib.SMTPDataError) as sent:
            client.sendmail("<>", [to], plain(to, "a line\r\n" * 1000))
        assert sent.value.smtp_code == 552


def test_a_report_that_cannot_be_recorded_now_is_deferred(
    worker: Services, rows: Rows, recipient_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "PATIENCE", 0.0)
    rows.change([recipient_id], state="sending")
    to = return_path(worker.settings, recipient_id, FROM)
    with listening(worker) as port, smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE) as client:
        with pytest.raises(smtplib.SMTPDataError) as answer:
            client.sendmail("<>", [to], delivery_failure(to, "ann@example.com"))
        assert (answer.value.smtp_code, answer.value.smtp_error) == (451, b"4.3.0 not now, try again later")
        rows.change([recipient_id], state="delivered")
        assert client.sendmail("<>", [to], delivery_failure(to, "ann@example.com")) == {}
    assert rows.recipient(recipient_id).state == "bounced"


@contextmanager
def held_reports(worker: Services) -> Iterator[None]:
    """Lets reports about domains take as long as the block."""
    with worker.database.write() as transaction:
        transaction.execute(text("LOCK TABLE domain_reports IN ACCESS EXCLUSIVE MODE"))
        yield


@pytest.mark.postgresql("SQLite has one writer")
def test_a_report_about_a_domain_delays_no_other_mail(
    make_worker: Changed, rows: Rows, recipient_id: int, account_id: int
) -> None:
    """Some of them wait their turn, and further ones are deferred; all arrive in the end."""
    worker = make_worker(bounce_domain="bounces.acme.example")
    name = f"{unique('domain').lower()}.example"
    with worker.database.write() as transaction:
        domain, _ = add_domain_without_keys(transaction, account_id, name, trusted=True)
        about = report_address(worker.settings, domain.id)
    to = return_path(worker.settings, recipient_id, FROM)
    assert about

    def deliver(port: int, number: int) -> int:
        with smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE) as client:
            client.ehlo()
            client.mail("<>")
            client.rcpt(about)
            return client.data(with_attachment(about, dmarc_report(name, report_id=str(number))))[0]

    count = MAX_WAITING_REPORTS + 3
    with listening(worker) as port, ThreadPoolExecutor(count) as clients:
        with held_reports(worker):
            answers = [clients.submit(deliver, port, number) for number in range(count)]
            wait_until(lambda: sum(answer.done() for answer in answers) == 3, "three are deferred")
            with smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE) as client:
                assert client.sendmail("<>", [to], delivery_failure(to, "ann@example.com")) == {}
            assert rows.recipient(recipient_id).state == "bounced"
        codes = Counter(answer.result() for answer in answers)
        assert codes == {250: MAX_WAITING_REPORTS, 451: 3}
        assert deliver(port, count) == 250
