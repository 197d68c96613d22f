"""No answer of a transport stops the sender, whatever its text and types (docs/plugins.md#results)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.clock import now
from app.db.models import Recipient
from app.sends.delivery.drain import drain
from app.sends.outcomes.attempt_result import (
    AttemptResult,
    Journal,
    journal_folder,
    parse_line,
    sanitize_result,
    scan_journals,
)
from app.sends.outcomes.recovery import recover_expired_leases
from app.services import Services
from app.transports.base import DeliveryResult, Outcome
from tests.jobs.delivery.conftest import Changed, events
from tests.jobs.delivery.test_fairness import addresses, take
from tests.support.plugins import install
from tests.support.rows import Rows

PARROT = """
from app.transports.base import DeliveryResult, Outcome

ANSWERS = {}

class Parrot:
    def connect(self):
        return self
    def send(self, message):
        answer = ANSWERS.get(message.to.partition("@")[0], DeliveryResult.accepted("250 ok"))
        if isinstance(answer, BaseException):
            raise answer
        return answer
    def close(self):
        if ANSWERS.get("close"):
            raise ANSWERS["close"]

def from_url(url):
    return Parrot()
"""

ACCEPTED = Outcome.ACCEPTED


def answer(reply: Any = "250 ok", status: Any = None, gateway_id: Any = None, segments: Any = None) -> DeliveryResult:
    return DeliveryResult(ACCEPTED, reply, status, gateway_id, segments)


class Words(str):
    """A text whose methods behave differently from those of a string."""

    __slots__ = ()

    def __len__(self) -> int:
        raise RuntimeError("no length")

    encode = isascii = isprintable = strip = __getitem__ = __str__ = __len__  # type: ignore[assignment]


class Deaf:
    """An object that raises wherever it can."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __bool__ = __len__ = __eq__ = __hash__ = __str__  # type: ignore[assignment]


ACCEPTED_ANSWERS: dict[str, Any] = {
    "surrogate": answer("\ud800 ok"),
    "nul": answer("250\0ok"),
    "bytes": answer(b"250 ok\xff"),
    "no-reply": answer(None),
    "number": answer(250),
    "words": answer(Words("250 ok")),
    "deaf": answer(Deaf()),
    "long": answer("x" * 5_000_000),
    "status-bytes": answer(status=b"2.0.0"),
    "status-nul": answer(status="2.0\x00.0"),
    "status-deaf": answer(status=Deaf()),
    "id-surrogate": answer(gateway_id="\udfff"),
    "id-nul": answer(gateway_id="a\0b"),
    "id-bytes": answer(gateway_id=b"a\xff"),
    "id-number": answer(gateway_id=7),
    "id-long": answer(gateway_id="x" * 100_000),
    "id-words": answer(gateway_id=Words("a")),
    "id-deaf": answer(gateway_id=Deaf()),
    "segments-text": answer(segments="3"),
    "segments-large": answer(segments=2**70),
    "segments-negative": answer(segments=-1),
    "segments-switch": answer(segments=True),
    "segments-deaf": answer(segments=Deaf()),
}
"""Answers of a transport that has accepted the message, which must not be sent again."""

NO_ANSWERS: dict[str, Any] = {
    "none": None,
    "text": "250 ok",
    "tuple": (ACCEPTED, "250 ok", None, None, None),
    "outcome-text": DeliveryResult("accepted", "250 ok"),  # type: ignore[arg-type]
    "outcome-deaf": DeliveryResult(Deaf(), "250 ok"),  # type: ignore[arg-type]
    "deaf-result": Deaf(),
    "raises": ValueError("\ud800"),
    "exits": SystemExit(3),
    "interrupts": KeyboardInterrupt(),
    "base": BaseException("out of order"),
    "generator": GeneratorExit(),
}


@pytest.fixture
def parrot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The answer of the transport `parrot://`, by the local part of the address."""
    install(tmp_path, monkeypatch, {"parrot": "tms_parrot:from_url"}, group="tms.transports", tms_parrot=PARROT)
    import tms_parrot  # type: ignore[import-not-found]  # noqa: PLC0415 - it is there only now

    answers: dict[str, Any] = tms_parrot.ANSWERS
    return answers


def test_every_message_gets_a_result_whatever_the_transport_answers(
    rows: Rows, make_worker: Changed, parrot: dict[str, Any]
) -> None:
    """The other messages of the batch get their results as well, at once."""
    parrot |= {**ACCEPTED_ANSWERS, **NO_ANSWERS, "close": RuntimeError("cannot close")}
    rows.add_webhook()
    accepted, deferred, others = (
        rows.add_send([f"{name}@example.com" for name in ACCEPTED_ANSWERS]),
        rows.add_send([f"{name}@example.com" for name in NO_ANSWERS]),
        rows.add_send(addresses(5)),
    )
    drain(make_worker(email_transport_url="parrot://x"))
    assert rows.states(others) == ["delivered"] * 5
    assert dict(zip(ACCEPTED_ANSWERS, rows.states(accepted), strict=True)) == dict.fromkeys(
        ACCEPTED_ANSWERS, "delivered"
    )
    assert dict(zip(NO_ANSWERS, rows.states(deferred), strict=True)) == dict.fromkeys(NO_ANSWERS, "queued")
    assert {step for recipient_id in deferred for step, _ in rows.steps(recipient_id)} == {"deferred"}
    assert len(events(rows)) == len(ACCEPTED_ANSWERS) + 5


@pytest.mark.parametrize("name", ACCEPTED_ANSWERS)
def test_the_journal_and_the_database_store_the_same_answer(name: str) -> None:
    kept = sanitize_result(ACCEPTED_ANSWERS[name])
    attempt_result = AttemptResult(1, 1, "ann@example.com", now(), kept)
    assert parse_line(attempt_result.line()) == attempt_result
    assert kept.outcome is ACCEPTED
    assert len(kept.reply) <= 1000


def test_the_usable_parts_of_an_answer_are_kept() -> None:
    assert sanitize_result(answer(b"250 ok\xff", "2.1.5", 7, 3)) == answer("250 ok\ufffd", "2.1.5", "7", 3)
    assert sanitize_result(answer("250\0ok \ud800", "5", "a\0b", 0)) == answer("250 ok ?", None, None, None)


def refuse_outcome(worker: Services, recipient_id: int) -> str:
    """Makes the database refuse to change this recipient to `delivered`; returns the statement that removes this."""
    condition = f"NEW.id = {recipient_id} AND NEW.state = 'delivered'"
    raising = f"CREATE TRIGGER refusing BEFORE UPDATE ON recipients WHEN {condition} BEGIN "
    statements, end = [f"{raising} SELECT RAISE(ABORT, 'not this one'); END"], "DROP TRIGGER refusing"
    if worker.database.is_postgresql:
        body = f"BEGIN IF {condition} THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END"
        statements = [
            f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $${body}$$",
            "CREATE TRIGGER refusing BEFORE UPDATE ON recipients FOR EACH ROW EXECUTE FUNCTION refuse()",
        ]
        end = "DROP FUNCTION refuse CASCADE"
    with worker.database.write() as transaction:
        for statement in statements:
            transaction.execute(text(statement))
    return end


@pytest.fixture
def refused(rows: Rows, worker: Services) -> Iterator[tuple[list[int], int]]:
    """Recipients, and the one whose delivery cannot be written."""
    ids = rows.add_send(addresses(20))
    end = refuse_outcome(worker, ids[7])
    yield ids, ids[7]
    with worker.database.write() as transaction:
        transaction.execute(text(end))


def test_a_row_that_cannot_be_written_is_deferred_alone_and_logged(
    rows: Rows, worker: Services, refused: tuple[list[int], int], caplog: pytest.LogCaptureFixture
) -> None:
    ids, refused_id = refused
    drain(worker)
    assert rows.states(ids) == ["queued" if each == refused_id else "delivered" for each in ids]
    assert rows.group_of(refused_id).delivered == 19
    assert [step for step, _ in rows.steps(refused_id)] == ["deferred"]
    (record_of_failure,) = [
        record for record in caplog.records if record.message == "an attempt result cannot be written"
    ]
    assert record_of_failure.exc_info
    assert record_of_failure.recipient_id == refused_id  # type: ignore[attr-defined]


def test_recovery_from_a_journal_with_a_result_that_cannot_be_written_succeeds(
    rows: Rows, worker: Services, refused: tuple[list[int], int]
) -> None:
    ids, refused_id = refused
    taken = take(worker, 20, worker="dead")
    journal = Journal(journal_folder(worker.settings), "dead")
    for each in taken:
        journal.append(AttemptResult(each.id, each.attempts, each.email, now(), answer()))
    journal.close()
    recover_expired_leases(worker)
    assert rows.states(ids) == ["queued" if each == refused_id else "delivered" for each in ids]
    with scan_journals(journal_folder(worker.settings)) as journals:
        assert journals == []


def test_a_row_that_cannot_be_read_is_deferred_alone(rows: Rows, worker: Services) -> None:
    """The values of the row are no object, which no request could have stored."""
    ids = rows.add_send(addresses(9))
    with worker.database.write() as transaction:
        row = transaction.get_one(Recipient, ids[4])
        row.values = ["no", "object"]  # type: ignore[assignment]
    drain(worker)
    assert rows.states(ids) == ["queued" if each == ids[4] else "delivered" for each in ids]
