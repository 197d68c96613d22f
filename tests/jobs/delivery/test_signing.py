"""Mail has the DKIM signatures of its sending domain."""

from __future__ import annotations

import dkim as verifier
from sqlalchemy import select, update

from app.accounts.domains import add_domain, find_domain
from app.accounts.signing_keys import rotate_keys
from app.db.models import DkimKey
from app.sends.delivery.drain import drain
from app.services import Services
from app.transports.email.dkim import record_name, record_value
from tests.jobs.delivery.conftest import Changed
from tests.support.rows import Rows
from tests.unit.transports.mailserver import MailServer


def give_keys(services: Services, account_id: int, name: str = "acme.example") -> None:
    with services.database.write() as transaction:
        add_domain(transaction, account_id, name, trusted=True, secret_key=services.settings.secret_key)


def valid_signatures(services: Services, account_id: int, content: bytes) -> list[bool]:
    """Whether each signature is valid to another implementation, with the published keys of the account."""
    with services.database.read() as session:
        keys = session.scalars(select(DkimKey).where(DkimKey.account_id == account_id)).all()
    records = {
        record_name("acme.example", key.selector): record_value(key.algorithm, key.public_key).encode() for key in keys
    }

    def texts(name: bytes, timeout: int = 5) -> bytes:
        return records.get(name.decode().rstrip("."), b"")

    count = content.partition(b"\r\n\r\n")[0].count(b"DKIM-Signature:")
    return [bool(verifier.DKIM(content).verify(idx=number, dnsfunc=texts)) for number in range(count)]


def test_a_mail_carries_both_signatures(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    give_keys(worker, rows.account_id)
    rows.add_send(["ann@example.com", "zoë@example.com"], body_html="<p>Grüße</p>", from_address="Hi@Acme.Example")
    drain(worker)
    assert [valid_signatures(worker, rows.account_id, mail.content) for mail in mail_server.mails] == [[True] * 2] * 2


def test_a_domain_without_keys_has_no_signature(
    rows: Rows, worker: Services, mail_server: MailServer, other_id: int
) -> None:
    """Keys of another account's domain of the same name are not used."""
    give_keys(worker, other_id)
    give_keys(worker, rows.account_id, "other.example")
    rows.add_send(["ann@example.com"])
    drain(worker)
    (mail,) = mail_server.mails
    assert b"DKIM-Signature" not in mail.content


def test_only_active_keys_sign(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    give_keys(worker, rows.account_id)
    with worker.database.write() as transaction:
        domain = find_domain(transaction, rows.account_id, "acme.example")
        rotate_keys(transaction, domain, worker.settings.secret_key, "new")
        transaction.execute(update(DkimKey).where(DkimKey.selector == "new").values(state="active"))
    rows.add_send(["ann@example.com"])
    drain(worker)
    (mail,) = mail_server.mails
    head = mail.content.partition(b"\r\n\r\n")[0]
    assert (head.count(b"DKIM-Signature:"), head.count(b"s=new;"), head.count(b"s=new-ed25519;")) == (3, 1, 0)


def test_mail_is_deferred_while_a_key_cannot_be_decrypted(
    rows: Rows, make_worker: Changed, services: Services, mail_server: MailServer
) -> None:
    """A key cannot be decrypted under another `SECRET_KEY`. Nothing is sent unsigned then, and the operator has time to
    correct it."""
    give_keys(services, rows.account_id)
    (ann,) = rows.add_send(["ann@example.com"])
    drain(make_worker(secret_key="another secret of the tests, long enough"))
    assert (rows.states([ann]), mail_server.mails) == (["queued"], [])
    assert rows.steps(ann) == [("deferred", "internal fault: SecretUnreadable")]
    rows.make_due([ann])
    drain(make_worker())
    assert rows.states([ann]) == ["delivered"]
    assert [mail.recipients for mail in mail_server.mails] == [["ann@example.com"]]
