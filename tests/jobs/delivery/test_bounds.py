"""Size limits on rendered content; only the recipient beyond a limit fails (docs/delivery.md#size-limits)."""

from __future__ import annotations

from typing import Any

import pytest

from app.sends.delivery import sender_worker
from app.sends.delivery.claim import claim
from app.sends.delivery.dispatcher import Dispatcher
from app.sends.delivery.drain import drain
from app.sends.delivery.limits import beyond_quota, load_rendered
from app.sends.delivery.load import load
from app.sends.delivery.sender_worker import sender_worker_of
from app.sends.delivery.sizes import MAX_SUBJECT_BYTES, SizeLimits
from app.services import Services
from tests.jobs.delivery.conftest import Changed, StartDrain, body, events, parsed
from tests.support.rows import Rows
from tests.support.servers import wait_until
from tests.support.statements import StatementCounter
from tests.unit.transports.mailserver import MailServer

LONG = "x" * 1000
BUSY = "451 4.3.2 this mailbox is busy"


def person(email: str, **values: str) -> dict[str, Any]:
    return {"email": email, "values": values}


@pytest.mark.parametrize(
    ("content", "detail_start"),
    [
        ({"body_html": "<p>%%v%%%%v%%</p>", "body_text": "short"}, "body_html has more than 1500 bytes"),
        ({"body_text": "%%v%%%%v%%"}, "body_text has more than 1500 bytes"),
        (
            {"body_html": f"{'<ul>' * 8}%%w%%", "body_text": None},
            "the text generated from body_html has more than 1500",
        ),
        ({"body_text": "short", "subject": "%%v%%" * 66}, f"subject has more than {MAX_SUBJECT_BYTES} bytes"),
    ],
)
def test_a_recipient_whose_message_is_too_large_fails_alone(
    rows: Rows, make_worker: Changed, mail_server: MailServer, content: dict[str, Any], detail_start: str
) -> None:
    """The recipient gets its event, its count, and a timeline step that names the limit."""
    rows.add_webhook()
    large, fitting = rows.add_send(
        [person("large@a.example", v=LONG, w="<li>x" * 100), person("small@a.example", v="y")], **content
    )
    drain(make_worker(max_body_bytes=1500))
    assert rows.states([large, fitting]) == ["failed", "delivered"]
    assert [mail.recipients for mail in mail_server.mails] == [["small@a.example"]]
    recipient = rows.recipient(large)
    assert (recipient.reason, recipient.email) == ("too_large", "large@a.example")
    ((step, detail),) = rows.steps(large)
    assert step == "failed"
    assert (detail or "").startswith(detail_start)
    events_by_email = {event["email"]: event for event in events(rows)}
    assert events_by_email["large@a.example"]["event"] == "failed"
    assert events_by_email["large@a.example"]["fail_reason"] == "too_large"
    group = rows.group_of(large)
    assert (group.failed_contacts, group.delivered) == (1, 1)


def test_the_size_limit_applies_to_text_messages(rows: Rows, make_worker: Changed) -> None:
    (large,) = rows.add_send([{"mobile": "61411111111", "values": {"v": LONG}}], type="sms", body_text="%%v%%%%v%%")
    drain(make_worker(max_body_bytes=1500))
    assert (rows.recipient(large).state, rows.recipient(large).reason) == ("failed", "too_large")
    assert rows.steps(large) == [("failed", "body_text has more than 1500 bytes once it is filled in")]


def test_the_limit_of_a_body_applies_before_tracking_is_added(
    rows: Rows, make_worker: Changed, mail_server: MailServer
) -> None:
    """The limit counts bytes, not characters."""
    ids = rows.add_send([person("a@a.example", v="é" * 500), person("b@a.example", v="é" * 500 + "x")],
                        body_text="https://a.example/ %%v%%", track_clicks=True)  # fmt: skip
    drain(make_worker(max_body_bytes=1019))
    assert rows.states(ids) == ["delivered", "failed"]
    assert len(body(parsed(mail_server.mails[0].content), "plain").encode()) > 1019


def test_the_limit_of_a_mail_includes_its_attachments(
    rows: Rows, make_worker: Changed, mail_server: MailServer
) -> None:
    small, large = (("a.bin", "application/octet-stream", b"x" * size) for size in (30_000, 40_000))
    (fits,) = rows.add_send(["a@a.example"], attachments=[small])
    (too_large,) = rows.add_send(["b@a.example"], attachments=[large])
    (together,) = rows.add_send(["c@a.example"], attachments=[small], body_text="=" * 5_000)
    drain(make_worker(max_mail_bytes=50_000))
    assert rows.states([fits, too_large, together]) == ["delivered", "failed", "failed"]
    assert rows.steps(too_large) == rows.steps(together) == [("failed", "the mail has more than 50000 bytes")]
    assert all(len(mail.content) <= 50_000 for mail in mail_server.mails)


def test_everything_that_a_send_renders_is_limited(rows: Rows, make_worker: Changed, mail_server: MailServer) -> None:
    """Each recipient counts once, however many attempts it takes."""
    mail_server.reply(".", *[BUSY] * 3)
    ids = rows.add_send([person(f"{number}@a.example", v="x" * 995) for number in range(20)], body_text="%%v%%")
    worker = make_worker(max_send_bytes=10_000)
    drain(worker)
    rows.make_due([recipient_id for recipient_id in ids if rows.recipient(recipient_id).state == "queued"])
    drain(worker)
    assert sorted(rows.states(ids)) == ["delivered"] * 10 + ["failed"] * 10
    failed = next(recipient_id for recipient_id in ids if rows.recipient(recipient_id).state == "failed")
    assert rows.steps(failed) == [("failed", "with it, the send would render more than 10000 bytes in all")]


def test_the_limit_of_a_send_holds_across_batches_and_workers(
    rows: Rows, make_worker: Changed, start_drain: StartDrain, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers see each other's rows, and none exceeds the limit because of another's."""
    monkeypatch.setattr(sender_worker, "INITIAL_BATCH_SIZE", 3)
    monkeypatch.setattr(sender_worker, "MAX_BATCH_SIZE", 3)
    ids = rows.add_send([person(f"{number}@a.example", v="x" * 995) for number in range(30)], body_text="%%v%%")
    workers = [make_worker(max_send_bytes=10_000) for _ in range(2)]
    threads = [start_drain(worker) for worker in workers]
    for thread in threads:
        thread.join()

    def is_over() -> bool:
        rows.make_due([recipient_id for recipient_id in ids if rows.recipient(recipient_id).state == "queued"])
        drain(workers[0])
        return not {"queued", "sending"} & set(rows.states(ids))

    wait_until(is_over, "all recipients have an outcome")
    assert sorted(rows.states(ids)) == ["delivered"] * 10 + ["failed"] * 20


@pytest.mark.parametrize(("wildcards", "count", "selects"), [(3, 1, 0), (3, 100, 0), (100, 1, 1), (100, 100, 1)])
def test_the_limit_of_a_send_costs_a_select_only_where_it_can_be_reached(
    rows: Rows, worker: Services, wildcards: int, count: int, selects: int
) -> None:
    rows.add_send(
        [f"{number}@a.example" for number in range(count)], body_text="%%v%%" * wildcards, body_html="%%v%%" * wildcards
    )
    with worker.database.write() as transaction:
        recipients = load(transaction, claim(transaction, "worker", size=count, after=0), worker.settings)
        with StatementCounter(worker.database.engine) as counted:
            limits = SizeLimits.of(worker.settings)
            rendered = load_rendered(transaction, recipients, limits)
    assert beyond_quota(recipients, recipients, rendered, limits) == {}
    assert counted.count == selects


def test_small_messages_overtake_large_ones(rows: Rows, make_worker: Changed, mail_server: MailServer) -> None:
    """Large messages are composed one at a time, whatever the number of connections."""
    worker = make_worker(send_connections=2)
    large = rows.add_send([f"{number}@a.example" for number in range(6)], body_text=f"{'%%v**x%%' * 100_000}")
    (small,) = rows.add_send(["small@a.example"])
    with worker.database.write() as transaction:
        recipients = load(
            transaction, claim(transaction, sender_worker_of(worker).name, size=10, after=0), worker.settings
        )
    recipients.sort(key=lambda recipient: recipient.id)
    assert [recipient.is_large for recipient in recipients] == [True] * 6 + [False]
    dispatcher = Dispatcher(sender_worker_of(worker))
    dispatcher.enqueue(recipients)
    delivered: list[int] = []
    while dispatcher:
        delivered += [result.recipient_id for result in dispatcher.collect(1)]
    assert sorted(delivered) == [*large, small]
    assert delivered.index(small) < 4
