"""What follows from an attempt result: retry time, bounce, rows to write (docs/retries.md)."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.recipients.row import RecipientRow
from app.recipients.states import FailReason
from app.sends.outcomes.attempt_result import AttemptResult, parse_line, sanitize_result
from app.sends.outcomes.transitions import RetryRules, bounce_reason, bounce_string, decide_transition
from app.transports.base import DeliveryResult, Outcome
from tests.support.cases import each

MOMENT = datetime(2026, 5, 4, 12, tzinfo=UTC)


def recipient(attempts: int, age: float = 0) -> RecipientRow:
    """A recipient that was accepted `age` seconds ago."""
    return RecipientRow(
        id=1,
        account_id=1,
        uuid="u",
        type="email",
        group_id=1,
        group_name="g",
        message_id=None,
        list_id=None,
        contact_id=None,
        email=None,
        mobile=None,
        state="sending",
        begin_time=MOMENT - timedelta(seconds=age),
        attempts=attempts,
        request_id="r",
        from_address="hello@acme.example",
    )


@each(
    ("attempts", "seconds"),
    [(1, 30), (2, 60), (3, 120), (4, 240), (7, 1920), (8, 3600), (9, 3600), (1000, 3600)],
)
def test_delays_double_up_to_an_hour(attempts: int, seconds: float) -> None:
    """Never sooner than that, and at most a tenth later."""
    for _ in range(20):
        assert seconds <= RetryRules(30, 86400).delay(attempts) <= seconds * 1.1


@each(("first", "attempts", "seconds"), [(0, 1, 0), (0, 2, 2), (0, 3, 4), (7200, 1, 7200), (7200, 5, 7200)])
def test_unusual_first_delays_are_supported(first: float, attempts: int, seconds: float) -> None:
    """A first delay of zero must not make a busy loop; a long one never shrinks."""
    assert seconds <= RetryRules(first, 86400).delay(attempts) <= seconds * 1.1


def test_the_last_attempt_is_at_the_end_of_the_retry_period() -> None:
    """However long the delays are by then."""
    assert RetryRules(30, 1000).next_attempt(recipient(8, age=900), MOMENT) == MOMENT + timedelta(seconds=100)


def test_a_result_may_say_when_the_next_attempt_is() -> None:
    """Within the retry period, or never."""
    rules, deferred = RetryRules(30, 1000), recipient(1, age=900)
    for retry_in, seconds in ((2.0, 2), (500.0, 100)):
        assert rules.next_attempt(deferred, MOMENT, retry_in) == MOMENT + timedelta(seconds=seconds)
    assert rules.next_attempt(deferred, MOMENT, math.inf) is None


@pytest.mark.parametrize(("age", "again"), [(999, True), (1000, False), (5000, False)])
def test_after_the_retry_period_there_is_no_further_attempt(age: float, again: bool) -> None:
    """The period is a setting, by default 24 hours."""
    assert (RetryRules(30, 1000).next_attempt(recipient(1, age), MOMENT) is not None) is again


@pytest.mark.parametrize(
    ("reply", "status", "text"),
    [
        ("550 5.1.1 no such user", "5.1.1", "550 5.1.1 no such user"),
        ("554 go away", "5.0.0", "554 go away (5.0.0)"),
        ("", "5.6.7", "(5.6.7)"),
        ("no", None, "no"),
    ],
)
def test_the_bounce_string_contains_an_rfc_3463_code(reply: str, status: str | None, text: str) -> None:
    assert bounce_string(reply, status) == text


@each(
    ("status", "reason"),
    [
        ("5.1.1", "bad destination address"),
        ("4.2.2", "mailbox unavailable"),
        ("5.7.1", "refused by policy"),
        ("5.0.0", "not delivered"),
        ("5.9.9", "not delivered"),
        ("nonsense", "not delivered"),
        (None, "not delivered"),
    ],
)
def test_the_bounce_reason_is_the_class_of_the_failure(status: str | None, reason: str) -> None:
    """The second number of the code names the class."""
    assert bounce_reason(status) == reason


def test_a_transition_makes_all_rows_that_are_written() -> None:
    """The columns, the step and the event are made from the attempt result and the row."""
    refused = DeliveryResult.refused("550 5.1.1 no such user", "5.1.1")._replace(note="over the spare")
    result = AttemptResult(1, 2, "ann@a.example", MOMENT, refused, rendered=9, transport="spare")
    transition = decide_transition(recipient(2), result, RetryRules(30, 1000))
    columns = transition.recipient_columns()
    assert (columns["row"], columns["state"], columns["attempts"], columns["email"]) == (
        1,
        "bounced",
        2,
        "ann@a.example",
    )
    step = transition.step_row()
    assert (step["recipient_id"], step["step"], step["detail"]) == (1, "bounced", "550 5.1.1 no such user")
    assert (step["note"], step["transport"], step["time"]) == ("over the spare", "spare", MOMENT)
    assert transition.payload()["email"] == "ann@a.example"
    assert transition.blocks_address


@pytest.mark.parametrize(
    ("result", "relay_refuses", "counted"),
    [
        (DeliveryResult.deferred("451 4.2.2 full", "4.2.2"), False, "count"),
        (DeliveryResult.deferred("no connection", "4.4.1"), False, None),
        (DeliveryResult.refused("550 5.1.1 no such user", "5.1.1"), True, None),
    ],
)
def test_what_ends_with_the_retry_period_is_a_soft_bounce(
    result: DeliveryResult, relay_refuses: bool, counted: str | None
) -> None:
    """Counted against the address only if its mail server has deferred it, and never a reason to block it at once."""
    attempt = AttemptResult(1, 9, "ann@a.example", MOMENT, result)
    ended = decide_transition(recipient(9, age=5000), attempt, RetryRules(30, 1000), relay_refuses=relay_refuses)
    assert (ended.state, ended.soft_bounces, ended.blocks_address) == ("bounced", counted, False)
    assert ended.event_fields["is_temporary_bounce"] is True


@each(
    ("attempts", "age", "seconds"),
    [(1, 0, 900), (5, 0, 900), (7, 0, 1920), (9, 0, 3600), (9, 84_000, 2400), (9, 86_000, 900), (9, 90_000, 900)],
)
def test_an_uncertain_mail_is_left_alone_as_long_as_a_deferred_one(attempts: int, age: float, seconds: float) -> None:
    """Never shorter than `uncertain_wait`, and no longer than until the end of the period."""
    attempt = AttemptResult(1, attempts, "ann@a.example", MOMENT, DeliveryResult.uncertain("no answer", "4.4.2"))
    waits = decide_transition(recipient(attempts, age), attempt, RetryRules(30, 86_400, uncertain_wait=900))
    assert waits.state == "uncertain"
    assert waits.due_time is not None
    longest = min(seconds * 1.1, max(86_400 - age, 900))
    assert seconds <= (waits.due_time - MOMENT).total_seconds() <= longest


def test_what_waits_again_changes_only_its_entry() -> None:
    """Due at once if its time has come by now."""
    attempt = AttemptResult(1, 1, "ann@a.example", MOMENT, DeliveryResult.deferred("451 later"))
    waits = decide_transition(recipient(1), attempt, RetryRules(30, 1000))
    assert waits.recipient_columns() == {}
    later = MOMENT + timedelta(days=1)
    entry = waits.entry_columns(later)
    assert (entry["row"], entry["state"], entry["due_time"], entry["ready_time"]) == (
        1,
        "queued",
        waits.due_time,
        later,
    )


@given(st.text(), st.none() | st.text(max_size=9), st.sampled_from(Outcome), st.none() | st.floats(0, 10**6))
def test_every_result_can_be_journalled_and_read(
    reply: str, status: str | None, outcome: Outcome, retry_in: float | None
) -> None:
    """A result may have any reply of the other side, once it was cleaned."""
    result = sanitize_result(DeliveryResult(outcome, reply, None))
    attempt_result = AttemptResult(7, 2, "ann@example.com", MOMENT, result, retry_in=retry_in)
    line = attempt_result.line()
    assert line.count(b"\n") == 1
    assert parse_line(line) == attempt_result


@given(st.binary())
def test_a_malformed_line_raises_a_value_error(line: bytes) -> None:
    """A malformed line raises no other exception."""
    with pytest.raises(ValueError):
        parse_line(line)


def test_a_skipped_recipient_is_not_journalled() -> None:
    """The check is repeated at the next attempt."""
    with pytest.raises(ValueError):
        AttemptResult(7, 2, None, MOMENT, skip=FailReason.BLOCKED).line()


@given(st.text(st.characters(exclude_categories=[])))
def test_a_cleaned_reply_can_be_stored(reply: str) -> None:
    """A cleaned reply has no control characters and no lone surrogates, and is not too long."""
    text = sanitize_result(DeliveryResult.accepted(reply)).reply
    assert len(text) <= 1000
    assert text.encode() is not None
    assert not any(character < " " or character == "\x7f" for character in text)
