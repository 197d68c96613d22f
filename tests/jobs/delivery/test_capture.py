"""No message of a test account comes to a relay (docs/testing.md#inbox), not even behind a live one on one connection,
where the next mail is pipelined."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select, update

from app.db.models import Account, CapturedMessage
from app.sends.delivery.drain import drain
from app.services import Services
from tests.jobs.delivery.conftest import Changed
from tests.support.plugins import install
from tests.support.rows import Rows
from tests.unit.transports.mailserver import MailServer

PIPELINE = """
from pathlib import Path
from app.transports.base import DeliveryResult, wait_only

class Pipeline:
    pipelines = True
    def __init__(self, folder):
        self.folder = folder
    def connect(self):
        return self
    def send(self, message, following=None, while_waiting=wait_only):
        (self.folder / message.to).touch()
        if following:
            (self.folder / f"{following.to} announced").touch()
        return DeliveryResult.accepted("queued")
    def close(self):
        pass

def from_url(url):
    return Pipeline(Path(url.removeprefix("pipeline://")))
"""


def make_test_account(services: Services, account_id: int) -> None:
    with services.database.write() as transaction:
        transaction.execute(update(Account).where(Account.id == account_id).values(test_of=-account_id))


def test_test_mails_between_live_ones_never_come_to_the_relay(
    make_worker: Changed, mail_server: MailServer, account_id: int, other_id: int
) -> None:
    worker = make_worker(send_connections=1)
    live, test = Rows(worker, account_id), Rows(worker, other_id)
    make_test_account(worker, other_id)
    # A claim alternates between the accounts, so that each live mail is followed by a test mail.
    people = [f"live{number}@example.com" for number in range(10)]
    live_ids = live.add_send(people)
    test_ids = test.add_send([f"test{number}@example.com" for number in range(10)])
    drain(worker)
    assert sorted(address for mail in mail_server.mails for address in mail.recipients) == sorted(people)
    states = {
        rows.recipient(recipient_id).state for rows, ids in ((live, live_ids), (test, test_ids)) for recipient_id in ids
    }
    assert states == {"delivered"}
    with worker.database.read() as session:
        captured_ids = select(CapturedMessage.recipient_id).where(CapturedMessage.account_id == other_id)
        assert sorted(session.scalars(captured_ids)) == sorted(test_ids)


def test_no_test_mail_is_pipelined_behind_a_live_one(
    make_worker: Changed, account_id: int, other_id: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, {"pipeline": "tms_pipeline:from_url"}, group="tms.transports", tms_pipeline=PIPELINE)
    folder = tmp_path / "relay"
    folder.mkdir()
    worker = make_worker(email_transport_url=f"pipeline://{folder}", send_connections=1)
    make_test_account(worker, other_id)
    people = [f"live{number}@example.com" for number in range(20)]
    Rows(worker, account_id).add_send([*people, *people])
    Rows(worker, other_id).add_send([f"test{number}@example.com" for number in range(10)])
    drain(worker)
    seen = {path.name for path in folder.iterdir()}
    assert {name.removesuffix(" announced") for name in seen} == set(people)
    assert any(name.endswith(" announced") for name in seen)


def test_a_test_needs_no_relay(make_worker: Changed, account_id: int) -> None:
    worker = make_worker(email_transport_url="smtp://127.0.0.1:1", sms_transport_url="smpp://a:b@127.0.0.1:1")
    make_test_account(worker, account_id)
    rows = Rows(worker, account_id)
    (mail,) = rows.add_send(["ann@example.com"])
    (text,) = rows.add_send(["61411111111"], type="sms")
    drain(worker)
    assert [rows.recipient(recipient_id).state for recipient_id in (mail, text)] == ["delivered", "sent"]
