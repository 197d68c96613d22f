"""What a definition may say, and how it is refused (docs/automations.md#definition)."""

from __future__ import annotations

from datetime import time
from typing import Any

import pytest

from app.automations.definition import (
    Branch,
    Call,
    Duration,
    Outcome,
    Send,
    SetFields,
    Stop,
    Unsubscribe,
    UntilDate,
    UntilTime,
    Wait,
)
from app.automations.parse import parse_stored
from app.automations.written import written_definition
from app.errors import ServiceError
from tests.support.cases import each
from tests.support.definitions import ADVANCED, STANDARD, advanced, branch, parsed, send, stop


def errors_of(document: Any) -> list[tuple[str, str | None]]:
    """Code and path of each error."""
    with pytest.raises(ServiceError) as raised:
        parsed(document)
    return [(error.code, error.field) for error in raised.value.errors]


def test_a_standard_automation_sends_one_message_on_each_trigger() -> None:
    definition = parsed(STANDARD)
    assert (definition.action, definition.entry.again, definition.entry.conditions) == ("created", "always", None)
    assert definition.steps == (Send("message", "Welcome"),)


def test_a_standard_automation_may_send_after_a_delay() -> None:
    definition = parsed({**STANDARD, "after": "2 hours", "again": "never"})
    assert definition.steps == (Wait("delay", Duration(2, "hours")), Send("message", "Welcome"))
    assert definition.entry.again == "never"


def test_an_id_may_be_a_number() -> None:
    definition = parsed({**STANDARD, "list": 3, "message": 7})
    assert (definition.list, definition.steps) == ("3", (Send("message", "7"),))
    series = parsed({**ADVANCED, "steps": [{"name": "hello", "send": 7}]})
    assert series.steps == (Send("hello", "7"),)


def test_each_step_of_an_advanced_automation_is_read() -> None:
    definition = parsed(ADVANCED)
    by_name = definition.by_name
    assert (definition.entry.again, definition.entry.least_time) == ("always", Duration(7, "days"))
    assert by_name["two days"] == Wait("two days", Duration(2, "days"))
    assert by_name["monday morning"] == Wait("monday morning", UntilTime(time(9), ("monday", "tuesday")))
    assert by_name["birthday"] == Wait("birthday", UntilDate("born", -7, time(8, 30), "next year"))
    read_it = by_name["read it"]
    assert isinstance(read_it, Branch)
    assert read_it.on == Outcome("hello", "clicked", Duration(1, "days"), "https://acme.example/")
    assert by_name["mark"] == SetFields("mark", {"status": "welcomed", "score": 5, "born": "2001-02-03", "note": None})
    assert by_name["end"] == Stop("end")
    assert by_name["out"] == Unsubscribe("out", ("email", "mobile"))
    assert by_name["tell"] == Call("tell", "https://hooks.acme.example/in")


def test_both_ways_of_a_branch_lead_to_the_step_behind_it() -> None:
    definition = parsed(ADVANCED)
    out = definition.step("out")
    assert [definition.after(name) for name in ("thanks", "is gold", "read it")] == [out, out, out]
    assert definition.after("tell") is None
    assert definition.first.name == "hello"


@pytest.mark.parametrize("document", [STANDARD, {**STANDARD, "after": "1 day", "if": "plan:HAS"}, ADVANCED])
def test_what_is_stored_is_read_as_what_was_written(document: Any) -> None:
    definition = parsed(document)
    assert parse_stored(written_definition(definition)) == definition
    assert parsed(written_definition(definition)) == definition


@each(
    ("changes", "errors"),
    [
        ({"kind": "simple"}, [("invalid_string", "kind")]),
        ({"kind": None}, [("required", "kind")]),
        (
            {"kind": None, "steps": [], 5: True},
            [("not_empty", "steps"), ("unexpected_field", "5"), ("required", "kind")],
        ),
        ({"trigger": "REST API Contact Created"}, [("invalid_string", "trigger")]),
        ({"steps": []}, [("unexpected_field", "steps")]),
        ({"name": " ", "message": 5.5}, [("not_empty", "name"), ("invalid_string", "message")]),
        ({"name": "a" * 256}, [("too_long", "name")]),
        ({"if": "plan"}, [("invalid_string", "if")]),
        ({"if": "EXACTLY:gold"}, [("invalid_string", "if")]),
        ({"if": "plan:HAS:OR:plan:IS:gold"}, [("invalid_string", "if")]),
        ({"after": "2 fortnights"}, [("invalid_string", "after")]),
        ({"after": 2}, [("invalid_string", "after")]),
        ({"after": "0 minutes"}, [("invalid_range", "after")]),
        ({"after": "401 days"}, [("invalid_range", "after")]),
        ({"again": "sometimes"}, [("invalid_string", "again")]),
        ({"again": {"after": "1 day", "before": "2 days"}}, [("unexpected_field", "again.before")]),
        ({"list": None, 5: True}, [("unexpected_field", "5"), ("required", "list")]),
        ({"message_id": 5}, [("unexpected_field", "message_id")]),
    ],
)
def test_a_standard_automation_that_is_wrong_is_refused_with_the_path(
    changes: dict[Any, Any], errors: list[tuple[str, str]]
) -> None:
    assert errors_of({**STANDARD, **changes}) == errors


@pytest.mark.parametrize("document", [None, [], "text", 5])
def test_what_is_no_mapping_is_refused(document: Any) -> None:
    assert errors_of(document) == [("invalid_object", None)]


def step(**verb: Any) -> dict[str, Any]:
    return {"name": "a", **verb}


@each(
    ("written", "errors"),
    [
        ({"send": "Welcome"}, [("required", "steps[0].name")]),
        ({"name": "a"}, [("invalid_object", "steps[0]")]),
        (step(send="Welcome", stop=True), [("invalid_object", "steps[0]")]),
        (step(send="Welcome", body="x"), [("unexpected_field", "steps[0].body")]),
        ({"name": "a" * 101, "send": "Welcome"}, [("too_long", "steps[0].name")]),
        ({"name": "a\nb", "send": "Welcome"}, [("invalid_string", "steps[0].name")]),
        (step(stop=False), [("invalid_boolean", "steps[0].stop")]),
        (step(wait={}), [("invalid_object", "steps[0].wait")]),
        (step(wait={"until": "09:00", "date": "born"}), [("invalid_object", "steps[0].wait")]),
        (step(wait={"until": 630}), [("invalid_string", "steps[0].wait.until")]),
        (step(wait={"until": "24:00"}), [("invalid_string", "steps[0].wait.until")]),
        (step(wait={"until": "09:00", "days": ["mon"]}), [("invalid_string", "steps[0].wait.days[0]")]),
        (step(wait={"until": "09:00", "days": []}), [("not_empty", "steps[0].wait.days")]),
        (step(wait={"date": "born", "offset": "2 hours"}), [("invalid_string", "steps[0].wait.offset")]),
        (step(wait={"date": "born", "offset": "-58 weeks"}), [("invalid_range", "steps[0].wait.offset")]),
        (step(wait={"date": "born", "past": "skip"}), [("invalid_string", "steps[0].wait.past")]),
        (step(branch={"if": "plan:HAS"}), [("required", "steps[0].then")]),
        (step(branch={"if": "plan:HAS"}, then=[]), [("not_empty", "steps[0].then")]),
        (
            step(branch={"step": "b", "did": "read"}, then=[stop("c")]),
            [
                ("invalid_id", "steps[0].branch.step"),
                ("invalid_string", "steps[0].branch.did"),
                ("required", "steps[0].branch.within"),
            ],
        ),
        (step(set={}), [("not_empty", "steps[0].set")]),
        (step(set={"status": True}), [("invalid_string", "steps[0].set.status")]),
        (step(unsubscribe="sms"), [("invalid_string", "steps[0].unsubscribe")]),
        (step(call="x" * 2001), [("too_long", "steps[0].call")]),
        (step(send="a\0"), [("invalid_string", "steps[0].send")]),
    ],
)
def test_a_step_that_is_wrong_is_refused_with_the_path(written: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    assert errors_of(advanced(written)) == errors


def test_all_errors_are_reported_together() -> None:
    document = advanced(send("a"), {"name": "b"}, branch("c", [step(wait="soon"), send("d")], [send("d")]), send("a"))
    assert errors_of(document) == [
        ("invalid_object", "steps[1]"),
        ("conflict", "steps[2].then[0].name"),
        ("invalid_string", "steps[2].then[0].wait"),
        ("conflict", "steps[2].else[0].name"),
        ("conflict", "steps[3].name"),
    ]


def test_each_value_of_a_step_is_checked_whatever_is_wrong_with_others() -> None:
    document = advanced(
        {"send": "Welcome", "wait": "soon", "branch": {"if": "plan"}},
        branch("b", [{"name": "c", "wait": {"date": 5, "at": "noon"}}], on={"if": "plan:IS:gold", "step": "a"}),
        {"name": "d", "set": {"plan": True, "score": [1], "status": "x"}},
        stop("e"),
        branch("f", [stop("g")], on={"step": "nothing", "did": "clicked", "within": "later", "link": 5}),
    )
    assert errors_of(document) == [
        ("invalid_object", "steps[0]"),
        ("invalid_string", "steps[0].wait"),
        ("invalid_string", "steps[0].branch.if"),
        ("invalid_string", "steps[1].branch.if"),
        ("unexpected_field", "steps[1].branch.step"),
        ("invalid_string", "steps[1].then[0].wait.date"),
        ("invalid_string", "steps[1].then[0].wait.at"),
        ("invalid_string", "steps[2].set.plan"),
        ("invalid_string", "steps[2].set.score"),
        ("unexpected_field", "steps[4]"),
        ("invalid_id", "steps[4].branch.step"),
        ("invalid_string", "steps[4].branch.within"),
        ("invalid_string", "steps[4].branch.link"),
        ("required", "steps[0].name"),
    ]


def test_without_a_kind_the_keys_of_both_kinds_are_read() -> None:
    document = {"steps": [{"name": "a", "wait": "soon"}], "after": "soon", "name": "", "kind": "odd", "more": 1}
    assert errors_of(document) == [
        ("invalid_string", "steps[0].wait"),
        ("invalid_string", "after"),
        ("not_empty", "name"),
        ("invalid_string", "kind"),
        ("unexpected_field", "more"),
        ("required", "list"),
        ("required", "trigger"),
    ]


def test_a_step_that_cannot_be_read_makes_no_error_elsewhere() -> None:
    asks = branch("b", [stop("c")], on=outcome("a"))
    assert errors_of(advanced(step(send=5.5), asks)) == [("invalid_string", "steps[0].send")]
    assert errors_of(advanced(step(stop=False), send("b"))) == [("invalid_boolean", "steps[0].stop")]


def outcome(name: str) -> dict[str, str]:
    return {"step": name, "did": "opened", "within": "2 days"}


@each(
    ("steps", "errors"),
    [
        ([branch("b", [send("a")], on=outcome("a"))], [("invalid_id", "steps[0].branch.step")]),
        ([stop("a"), send("b")], [("unexpected_field", "steps[1]")]),
        ([branch("a", [stop("b")], [stop("c")]), send("d")], [("unexpected_field", "steps[1]")]),
        ([step(wait="1 day"), branch("b", [stop("c")], on=outcome("a"))], [("invalid_id", "steps[1].branch.step")]),
        # The message is on the other side of the branch.
        (
            [branch("a", [send("b")], [branch("c", [stop("d")], on=outcome("b"))])],
            [("invalid_id", "steps[0].else[0].branch.step")],
        ),
        # Whoever got the message has stopped.
        (
            [branch("a", [send("b"), stop("c")]), branch("d", [stop("e")], on=outcome("b"))],
            [("invalid_id", "steps[1].branch.step")],
        ),
    ],
)
def test_what_no_run_can_reach_or_ask_for_is_refused(steps: list[Any], errors: list[tuple[str, str]]) -> None:
    assert errors_of(advanced(*steps)) == errors


def test_a_branch_may_ask_for_a_message_that_only_some_runs_got() -> None:
    document = advanced(branch("a", [send("b")]), branch("c", [stop("d")], on=outcome("b")), send("e"))
    assert list(parsed(document).by_name) == ["a", "b", "c", "d", "e"]


def nested(depth: int) -> dict[str, Any]:
    """A branch in a branch, `depth` times."""
    inner = send("end")
    for number in range(depth):
        inner = branch(f"b{number}", [inner])
    return inner


def test_branches_are_nested_to_a_depth() -> None:
    assert len(parsed(advanced(nested(9))).by_name) == 10
    assert errors_of(advanced(nested(10)))[0] == ("too_long", "steps[0]" + ".then[0]" * 9 + ".then")


def test_an_automation_has_a_bounded_number_of_steps() -> None:
    steps = [send(f"s{number}") for number in range(60)]
    more = [send(f"t{number}") for number in range(40)]
    assert len(parsed(advanced(*steps, *more)).by_name) == 100
    assert errors_of(advanced(*steps, branch("b", more)))[0] == ("too_long", "steps[60].then[39]")
    assert errors_of(advanced(*steps, *more, send("u"))) == [("too_long", "steps")]


def test_steps_that_an_alias_repeats_without_end_are_read_in_bounded_time() -> None:
    steps: list[Any] = [send("a")]
    for number in range(9):
        steps = [branch(f"b{number}", steps)] * 100
    assert ("too_long", "steps[1]") in errors_of(advanced(*steps))
