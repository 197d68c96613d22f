"""The checker of the fault suite passes a sound round, and detects each violated guarantee (fast, no service)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.chaos import check_backup
from tests.chaos.check import check
from tests.chaos.facts import Facts, Person, Run
from tests.chaos.limits import Limits
from tests.chaos.record import Course, Delivery, Mail, Request, RoundRecord, Whole
from tests.chaos.series import PASSED, SENDING

COURSE = Course(struck=100.0, ended=110.0, up=110.0, load_ended=120.0, kills=(107.05,))
ANN, BOB, CAT, DAN = "ann@people.example", "bob@people.example", "cat@people.example", "dan@people.example"
EVE, FAY = "61411111111", "61422222222"


class World:
    """A sound round of one account: a send to three people, of whom the relay refused one, and texts to two more, of
    which one got a receipt; a contact was created and deleted. The first batch of events was not answered, and was
    repeated.
    """

    def __init__(self) -> None:
        ends = {ANN: "delivered", BOB: "delivered", CAT: "bounced"}
        steps = {"delivered": ("sent",), "bounced": ("deferred", "bounced")}
        self.people = [
            Person(number, f"uuid of {address}", "acme", address, 1, state, steps[state])
            for number, (address, state) in enumerate(ends.items(), 1)
        ]
        texts = {EVE: ("delivered", ("sent", "acknowledged")), FAY: ("sent", ("sent",))}
        self.people += [
            Person(number, f"uuid of {mobile}", "acme", mobile, 2, *end)
            for number, (mobile, end) in enumerate(texts.items(), 4)
        ]
        self.groups = {
            1: {"sent": 3, "delivered": 2, "bounced": 1, "failed_contacts": 0},
            2: {"sent": 2, "delivered": 2, "bounced": 0, "failed_contacts": 0},
        }
        self.hours = dict(self.groups)
        self.contacts = {"acme": dict.fromkeys((*ends, *texts), 1)}
        self.left_behind: list[str] = []
        self.mails = [
            Mail(108.0, "one", "taken", ANN),
            Mail(111.0, "one", "taken", BOB, attached="a digest"),
            Mail(112.0, "two", "refused", CAT),
            Mail(113.0, "one", "lost"),
        ]
        self.attached = {BOB: "a digest"}
        self.texts = [
            Mail(108.0, "bind", "taken", EVE),
            Mail(108.5, "bind", "confirmed", EVE),
            Mail(111.0, "bind", "taken", FAY),
        ]
        created = [_contact("created", number) for number in (1, 2, 3, 4, 5, 7)]
        first = [*created, _recipient("sent", ANN, 1)]
        second = [_recipient("sent", BOB, 2), _recipient("bounced", CAT, 3)]
        second += [_recipient("sent", EVE, 4), _recipient("acknowledged", EVE, 4), _recipient("sent", FAY, 5)]
        third = [_contact("updated", 7), _contact("deleted", 7)]
        self.deliveries = [
            Delivery(109.0, "acme", "j1", True, first, None, 108.9),
            Delivery(112.0, "acme", "j1", True, first, 204, 111.9),
            Delivery(113.0, "acme", "j2", True, second, 204, 112.9),
            Delivery(119.0, "acme", "j3", True, third, 204, 118.9),
        ]
        self.requests = [
            Request("acme", "send", 104.0, 105.0, 202, key="k1"),
            Request("acme", "send", 109.0, 109.5, 503, "1", key="k2"),
            Request("acme", "send", 111.0, 111.5, 202, key="k2"),
        ]
        self.chain: list[tuple[int, Any]] = [(7, "created"), (7, "updated"), (7, "deleted")]
        self.tried_once = [
            Whole("send", "acme", 202, (BOB, CAT)),
            Whole("contacts", "acme", 503, ("x@people.example", "y@people.example")),
        ]
        self.never_answered: list[str] = []
        self.forgotten: set[str] = set()
        self.accepted: dict[str, str] = {}
        """Besides those that the database has."""
        self.written: dict[tuple[str, str], str] = {("acme", ANN): "Ann 3", ("acme", "gone@people.example"): "Ann 1"}
        self.values: dict[tuple[str, str], str | None] = {("acme", ANN): "Ann 3", ("acme", BOB): None}
        self.counters_in_api: dict[int, dict[str, int]] | None = None
        """What the API shows of groups, unless it is what they have."""
        self.runs: list[Run] = []
        self.entered: list[tuple[str, str]] = []

    def add_run(self) -> None:
        """A contact goes through the series of the suite."""
        ids = {name: number for number, name in enumerate(SENDING, 11)}
        for name, number in ids.items():
            self.people.append(Person(number, f"uuid {name}", "acme", DAN, number, "delivered", ("sent",), name))
            self.groups[number] = {"sent": 1, "delivered": 1, "bounced": 0, "failed_contacts": 0}
            self.mails.append(Mail(115.0, "three", "taken", DAN, subject=name))
        self.hours = dict(self.groups)
        self.contacts["acme"][DAN] = 1
        outcomes = [{**_recipient("sent", DAN, 9), "uuid": f"uuid {name}"} for name in SENDING]
        events = [_contact("created", 9), *outcomes, _called(9), _contact("updated", 9)]
        self.deliveries.append(Delivery(120.5, "acme", "j4", True, events, 204, 120.4))
        self.runs = [Run("acme", 9, DAN, "ended", "completed", PASSED, tuple(ids.items()))]
        self.entered = [("acme", DAN)]

    def broken(self, limits: Limits | None = None) -> list[str]:
        """The violated guarantees that the checker detects."""
        accepted = {person.address: person.uuid for person in self.people if person.address not in (CAT, DAN, "")}
        seen = RoundRecord(
            requests=self.requests,
            accepted=accepted | self.accepted,
            never_answered=self.never_answered,
            chains={"acme": self.chain},
            values=self.written,
            tried_once=self.tried_once,
            attached=self.attached,
            mails=self.mails,
            texts=self.texts,
            deliveries=self.deliveries,
            entered=self.entered,
            forgotten=self.forgotten,
        )
        return check(seen, self.facts(), COURSE, limits or Limits()).broken

    def facts(self) -> Facts:
        """What the database has."""
        counters = self.groups if self.counters_in_api is None else self.counters_in_api
        figures_of_contacts = self.contacts, self.left_behind, self.runs, self.values
        return Facts(self.people, self.groups, self.hours, *figures_of_contacts, counters)

    def only(self, what: str, limits: Limits | None = None) -> None:
        """Exactly one guarantee is violated, with this message."""
        (complaint,) = self.broken(limits)
        assert what in complaint

    def among(self, what: str) -> None:
        """At least one guarantee is violated, with this message."""
        assert any(what in complaint for complaint in self.broken()), self.broken()

    def change_events(self, change: Any) -> None:
        """Applies a change to all deliveries of a batch."""
        self.deliveries = [replace(delivery, events=change(delivery.events)) for delivery in self.deliveries]


def _contact(event: str, contact: int) -> dict[str, Any]:
    return {"object": "contact", "event": event, "id": contact, "timestamp": "1970-01-01T00:01:50Z"}


def _recipient(event: str, address: str, contact: int) -> dict[str, Any]:
    return {
        "object": "recipient",
        "event": event,
        "uuid": f"uuid of {address}",
        "contact_id": contact,
        "timestamp": "1970-01-01T00:01:50Z",
    }


def _called(contact: int) -> dict[str, Any]:
    return {"object": "automation", "event": "called", "contact_id": contact, "timestamp": "1970-01-01T00:01:50Z"}


@pytest.fixture
def world() -> World:
    """A sound world, for a test to break."""
    return World()


def test_a_sound_round_breaks_no_guarantee(world: World) -> None:
    assert world.broken() == []


# ------------------------------------------------------------------------------------------ messages


def test_an_accepted_message_that_the_relay_never_had_is_lost(world: World) -> None:
    world.mails = [mail for mail in world.mails if mail.to != ANN]
    world.among("1 accepted messages lost: ann@people.example")


def test_a_second_copy_is_a_double(world: World) -> None:
    world.mails.insert(1, Mail(109.0, "two", "taken", ANN))
    world.only("1 messages doubled that were not in flight: ann@people.example")


def test_the_last_mail_of_a_connection_that_was_killed_may_be_doubled_where_connections_are_killed(
    world: World,
) -> None:
    world.mails[:1] = [Mail(107.0, "killed", "taken", ANN), Mail(107.1, "killed", "lost"), *world.mails[:1]]
    assert world.broken(Limits(doubles_in_flight=True)) == []
    world.only("doubled that were not in flight")


def test_a_mail_that_was_answered_long_before_its_sender_was_killed_may_not_be_doubled(world: World) -> None:
    idle = [Mail(103.0, "killed", "taken", ANN, began=102.9), Mail(107.1, "killed", "lost")]
    world.mails[:1] = [*idle, *world.mails[:1]]
    world.only("doubled that were not in flight", Limits(doubles_in_flight=True))


def test_a_connection_that_ended_when_nothing_was_killed_excuses_nothing(world: World) -> None:
    dropped = [Mail(111.0, "dropped", "taken", ANN, began=110.9), Mail(111.1, "dropped", "lost")]
    world.mails += dropped
    world.mails.append(Mail(112.0, "one", "taken", ANN))
    world.only("doubled that were not in flight", Limits(doubles_in_flight=True))


def test_a_mail_on_whose_answer_the_relay_cut_the_connection_may_be_doubled(world: World) -> None:
    world.mails[:1] = [Mail(101.0, "cut", "taken", ANN, began=100.9), Mail(101.0, "cut", "cut"), *world.mails[:1]]
    assert world.broken(Limits(doubles_in_flight=True)) == []
    world.mails[1] = replace(world.mails[1], time=104.0)
    world.only("doubled that were not in flight", Limits(doubles_in_flight=True))


def test_a_mail_that_was_taken_without_an_answer_may_be_doubled(world: World) -> None:
    world.mails.insert(0, Mail(101.0, "kept", "taken", ANN, answered=False))
    assert world.broken(Limits(doubles_in_flight=True)) == []
    world.only("doubled that were not in flight")


@pytest.mark.parametrize("end", ["quit", None])
def test_a_connection_that_was_not_killed_excuses_nothing(world: World, end: Any) -> None:
    ends = [Mail(107.1, "kept", end)] if end else []
    world.mails[:1] = [Mail(107.0, "kept", "taken", ANN), *ends, *world.mails[:1]]
    world.only("doubled that were not in flight", Limits(doubles_in_flight=True))


def test_a_mail_before_the_last_of_a_killed_connection_is_not_excused(world: World) -> None:
    world.mails[:1] = [
        *(
            Mail(107.0, "killed", "taken", ANN),
            Mail(107.1, "killed", "taken", BOB, attached="a digest"),
            Mail(107.2, "killed", "lost"),
        ),
        *world.mails[:1],
    ]
    world.only("1 messages doubled that were not in flight: ann@people.example", Limits(doubles_in_flight=True))


def test_the_last_mail_before_a_stopped_sender_went_on_may_be_doubled(world: World) -> None:
    world.mails.insert(0, Mail(108.0, "stopped", "taken", ANN, began=106.9))
    assert world.broken(Limits(stops_senders=True)) == []
    world.mails[0] = replace(world.mails[0], time=104.0)
    world.only("1 messages doubled that were not in flight: ann@people.example", Limits(stops_senders=True))
    world.mails[0] = replace(world.mails[0], time=108.0)
    world.mails.insert(1, Mail(108.5, "stopped", "taken", BOB, attached="a digest"))
    world.only("1 messages doubled that were not in flight: ann@people.example", Limits(stops_senders=True))


def test_a_mail_of_a_request_that_was_undone_is_found(world: World) -> None:
    world.mails.append(Mail(114.0, "one", "taken", "x@people.example"))
    world.only("mails of requests that were undone: x@people.example")


def test_a_mail_with_the_content_for_somebody_else_is_found(world: World) -> None:
    world.mails[0] = replace(world.mails[0], whole=False)
    world.only("mails for another recipient: ann@people.example")


def test_a_recipient_whose_state_is_not_what_the_relay_did_is_found(world: World) -> None:
    world.people[1] = replace(world.people[1], state="sending")
    world.among("recipients in a wrong state: bob@people.example is sending")


# ------------------------------------------------------------------------------------------ texts and attachments


def test_an_accepted_text_that_the_gateway_never_had_is_lost(world: World) -> None:
    world.texts = [text for text in world.texts if text.to != FAY]
    world.among("1 accepted messages lost: 61422222222")


def test_texts_in_flight_on_a_lost_bind_may_be_doubled_and_no_more(world: World) -> None:
    lost = [Mail(107.0, "lost", "taken", EVE), Mail(107.1, "lost", "taken", FAY), Mail(107.2, "lost", "lost")]
    world.texts = [*lost, *world.texts]
    assert world.broken(Limits(doubles_in_flight=True)) == []
    world.only("2 messages doubled that were not in flight: 61411111111, 61422222222")
    world.texts.insert(0, Mail(106.9, "lost", "taken", EVE))
    world.only("texts doubled on a bind, more than were in flight: 3 on lost", Limits(doubles_in_flight=True))


def test_a_text_that_others_overtook_for_long_was_not_in_flight(world: World) -> None:
    others = [Mail(107.1, "lost", "taken", f"6140000000{number}") for number in range(4)]
    world.texts = [Mail(107.0, "lost", "taken", EVE), *others, Mail(107.2, "lost", "lost"), *world.texts]
    world.among("1 messages doubled that were not in flight: 61411111111")


def test_a_text_of_which_a_part_is_missing_is_found(world: World) -> None:
    world.texts[0] = replace(world.texts[0], whole=False)
    world.only("texts that are not whole: 61411111111")


def test_a_text_of_a_request_that_was_undone_is_found(world: World) -> None:
    world.texts.append(Mail(114.0, "bind", "taken", "61433333333"))
    world.only("texts of requests that were undone: 61433333333")


def test_a_refused_text_has_failed(world: World) -> None:
    world.texts[2] = replace(world.texts[2], step="refused")
    world.among("recipients in a wrong state: 61422222222 is sent")


def test_a_receipt_that_was_confirmed_and_not_written_is_found(world: World) -> None:
    world.texts.append(Mail(112.0, "bind", "confirmed", FAY))
    world.among("recipients in a wrong state: 61422222222 is sent")
    world.among("receipts not written once: 61422222222")


def test_a_receipt_that_was_written_twice_is_found(world: World) -> None:
    world.people[3] = replace(world.people[3], steps=("sent", "acknowledged", "acknowledged"))
    world.only("receipts not written once: 61411111111")


def test_a_receipt_without_its_event_is_found(world: World) -> None:
    world.change_events(lambda events: [event for event in events if event["event"] != "acknowledged"])
    world.only("events of recipients missing (acme): acknowledged uuid of 61411111111")


def test_texts_go_on_within_the_limit(world: World) -> None:
    world.texts[2] = replace(world.texts[2], time=140.0)
    world.only("sending texts again took 30.0 s, more than 15 s")


@pytest.mark.parametrize(("to", "attached"), [(BOB, ""), (BOB, "another digest"), (ANN, "a digest")])
def test_each_mail_has_its_attachments_whole_and_no_others(world: World, to: str, attached: str) -> None:
    world.mails = [replace(mail, attached=attached) if mail.to == to else mail for mail in world.mails]
    world.only(f"mails without exactly their attachments: {to}")


# ------------------------------------------------------------------------------------------ requests


def test_a_conflict_of_a_repeated_request_is_wrong(world: World) -> None:
    world.requests.insert(2, Request("acme", "send", 110.0, 110.1, 409, "1", "in progress", key="k2"))
    world.only("1 wrong 409s: send: in progress")


@pytest.mark.parametrize("retry_after", [None, "", "soon"])
def test_a_refusal_says_when_to_come_again(world: World, retry_after: str | None) -> None:
    world.requests[1].retry_after = retry_after
    world.only("503s without Retry-After")


@pytest.mark.parametrize("status", [500, 502, 401, 404, 422])
def test_any_other_refusal_is_wrong(world: World, status: int) -> None:
    world.requests[1].status = status
    world.only(f"other refusals: send: {status}")


def test_a_request_may_be_cut_off_only_where_processes_of_the_api_die(world: World) -> None:
    world.requests[1].status = None
    assert world.broken(Limits(cuts_requests=True)) == []
    world.only("requests cut off")


def test_a_request_is_answered_in_time_whatever_dies(world: World) -> None:
    world.requests[1].status, world.requests[1].silent = None, True
    world.only("requests without an answer in time", Limits(cuts_requests=True))


def test_an_answer_of_any_kind_comes_soon(world: World) -> None:
    world.requests[1].began -= 20
    world.only("1 answers that took too long: send: after 20.5 s")


def test_a_deletion_that_was_done_although_its_answer_was_lost_is_found_gone(world: World) -> None:
    world.requests += [
        Request("acme", "deleted", 111.0, 111.1, 503, "1", key="k3"),
        Request("acme", "deleted", 112.0, 112.1, 404, key="k3"),
    ]
    assert world.broken() == []


def test_a_request_that_never_got_its_answer_is_found(world: World) -> None:
    world.never_answered.append("POST /v1 k9")
    world.only("requests repeated in vain: POST /v1 k9")


def test_a_refused_request_is_undone_or_whole(world: World) -> None:
    world.contacts["acme"]["x@people.example"] = 1
    world.among("requests half done: contacts x@people.example answered 503: 1 of 2")


def test_a_send_without_the_contact_that_it_makes_is_half_done(world: World) -> None:
    del world.contacts["acme"][BOB]
    world.among("requests half done: send bob@people.example")


def test_work_that_was_answered_is_there(world: World) -> None:
    world.tried_once.append(Whole("contacts", "acme", 204, ("z@people.example",)))
    world.only("answered requests whose work is gone: contacts z@people.example")


def test_nobody_is_written_twice(world: World) -> None:
    world.people.append(replace(world.people[0], id=9))
    world.among("recipients written twice: ann@people.example")


# ------------------------------------------------------------------------------------------ reports


@pytest.mark.parametrize("counter", ["sent", "delivered", "bounced", "failed_contacts"])
def test_a_group_that_miscounts_is_found(world: World, counter: str) -> None:
    world.groups[1] = {**world.groups[1], counter: 9}
    world.only("groups that miscount: group 1")


def test_hours_that_miscount_are_found(world: World) -> None:
    world.hours[1] = {**world.hours[1], "delivered": 9}
    world.only("hours that miscount: the hours of group 1")


def test_a_group_whose_counters_the_api_shows_otherwise_is_found(world: World) -> None:
    world.counters_in_api = {**world.groups, 2: {**world.groups[2], "bounced": 1}}
    world.only("groups that the API counts otherwise: group 2")


def test_a_contact_without_the_value_of_its_last_change_is_found(world: World) -> None:
    world.values["acme", ANN] = "Ann 2"
    world.only("contacts without the values of their last change: ann@people.example is Ann 2, not Ann 3")


def test_a_timeline_has_exactly_one_end(world: World) -> None:
    world.people[0] = replace(world.people[0], steps=("sent", "sent"))
    world.among("timelines without exactly one end: ann@people.example")


def test_what_is_left_behind_is_reported(world: World) -> None:
    world.left_behind.append("journals/dead.journal")
    world.only("left behind: journals/dead.journal")


# ------------------------------------------------------------------------------------------ events


def test_a_missing_event_of_a_recipient_is_found(world: World) -> None:
    world.change_events(lambda events: [event for event in events if event.get("uuid") != f"uuid of {BOB}"])
    world.only("events of recipients missing (acme): sent uuid of bob@people.example")


def test_an_event_of_an_outcome_that_was_none_is_found(world: World) -> None:
    world.change_events(
        lambda events: [{**event, "event": "sent"} if event["event"] == "bounced" else event for event in events]
    )
    world.among("events of recipients without an outcome (acme): sent uuid of cat@people.example")


def test_an_event_under_two_names_is_found(world: World) -> None:
    world.deliveries.append(replace(world.deliveries[2], jti="j9", began=121.0))
    world.only("events of recipients reported twice (acme): sent uuid of bob@people.example")


def test_an_accepted_batch_may_come_again_under_its_name(world: World) -> None:
    world.deliveries.insert(3, replace(world.deliveries[2], time=114.0, began=113.9))
    assert world.broken() == []


def test_a_batch_keeps_its_events(world: World) -> None:
    world.deliveries[1] = replace(world.deliveries[1], events=[*world.deliveries[1].events, _contact("updated", 1)])
    world.only("batches that changed their events (acme): j1")


def test_a_batch_that_failed_keeps_its_name(world: World) -> None:
    world.deliveries[0] = replace(world.deliveries[0], jti="j0")
    world.only("batches not repeated next (acme): j0")


def test_an_unsigned_delivery_is_found(world: World) -> None:
    world.deliveries[2] = replace(world.deliveries[2], signed=False)
    world.only("deliveries without a valid signature (acme): j2")


def test_requests_to_a_webhook_that_overlap_are_found(world: World) -> None:
    world.deliveries[2] = replace(world.deliveries[2], overlaps=True)
    world.only("requests to a webhook that overlap (acme): j2")


def test_requests_to_a_webhook_in_quick_succession_are_found(world: World) -> None:
    world.deliveries[1] = replace(world.deliveries[1], began=112.4)  # read half a second late
    assert world.broken() == []
    world.deliveries[3] = replace(world.deliveries[3], began=113.0)
    world.only("requests to a webhook in quick succession (acme): j3 0.60 s")


def test_changes_of_one_client_keep_their_order(world: World) -> None:
    world.deliveries[3] = replace(world.deliveries[3], events=world.deliveries[3].events[::-1])
    world.only("changes of contacts out of order (acme): updated 7")


def test_a_change_of_a_contact_that_was_without_an_event_is_found(world: World) -> None:
    world.change_events(lambda events: [event for event in events if event["event"] != "updated"])
    world.only("changes of contacts without an event (acme): updated 7")


def test_a_change_is_reported_as_often_as_it_was_made(world: World) -> None:
    world.deliveries[3] = replace(world.deliveries[3], events=[_contact("updated", 7), *world.deliveries[3].events])
    world.only("changes of contacts reported twice (acme): updated 7")
    world.chain.insert(1, (7, "updated"))
    assert world.broken() == []
    world.chain.insert(1, (7, "updated"))
    world.only("changes of contacts without an event (acme): updated 7")


def test_a_contact_without_events_is_missed(world: World) -> None:
    world.contacts["acme"]["new@people.example"] = 1
    world.only("contacts more or fewer than the events report (acme): 6 instead of 5")


def test_a_recipient_is_reported_after_its_contact(world: World) -> None:
    world.change_events(lambda events: events[-1:] + events[:-1])
    world.among("recipients reported before their contact (acme): sent uuid of ann@people.example")


# ------------------------------------------------------------------------------------------ times


def test_requests_are_accepted_again_within_the_limit(world: World) -> None:
    world.requests[2].began, world.requests[2].ended = 129.0, 130.0
    world.only("accepting requests again took 20.0 s, more than 15 s")


def test_sending_goes_on_within_the_limit(world: World) -> None:
    world.mails[1] = replace(world.mails[1], time=140.0)
    world.only("sending again took 30.0 s, more than 15 s")


def test_a_webhook_does_not_stall_after_the_fault(world: World) -> None:
    world.deliveries[1:3] = [replace(delivery, time=delivery.time + 9) for delivery in world.deliveries[1:3]]
    world.deliveries[3] = replace(world.deliveries[3], time=123.0)
    world.only("the longest stall of a webhook took 11.0 s, more than 10 s")


def test_what_happens_after_the_load_is_no_stall(world: World) -> None:
    late = replace(world.deliveries[2], jti="j4", time=150.0, began=149.9, events=[_contact("updated", 1)])
    late.events[0]["timestamp"] = "1970-01-01T00:02:29Z"
    world.deliveries.append(late)
    assert world.broken() == []


# ------------------------------------------------------------------------------------------ automations


@pytest.fixture
def with_run(world: World) -> World:
    """A sound world in which a contact has gone through an automation."""
    world.add_run()
    return world


def test_a_sound_run_breaks_no_guarantee(with_run: World) -> None:
    assert with_run.broken() == []


def test_a_contact_without_a_run_or_with_two_is_found(with_run: World) -> None:
    with_run.entered.append(("acme", CAT))
    with_run.only("contacts that did not enter an automation once: cat@people.example 0 times")
    with_run.entered.pop()
    with_run.runs *= 2
    with_run.among("contacts that did not enter an automation once: dan@people.example 2 times")


@pytest.mark.parametrize(
    "changed",
    [
        {"state": "waiting", "reason": None},
        {"reason": "failed"},
        {"passed": (*PASSED[:4], *PASSED[3:])},
        {"passed": PASSED[1:]},
    ],
)
def test_a_run_that_did_not_pass_each_step_once_is_found(with_run: World, changed: dict[str, Any]) -> None:
    with_run.runs = [replace(with_run.runs[0], **changed)]
    with_run.only("runs that did not pass each step once")


def test_a_step_without_its_message_is_found(with_run: World) -> None:
    (run,) = with_run.runs
    with_run.runs = [replace(run, recipients=((run.recipients[0][0], None), *run.recipients[1:]))]
    with_run.among("steps passed without their message: dan@people.example hello")


def test_a_message_without_its_step_and_one_that_was_written_twice_are_found(with_run: World) -> None:
    with_run.people.append(replace(with_run.people[-1], id=99, uuid="another"))
    with_run.among("messages of steps that no run has passed: dan@people.example last")
    with_run.among("messages of steps doubled: dan@people.example last")


def test_a_mail_of_a_step_that_came_twice_is_found(with_run: World) -> None:
    with_run.mails.append(replace(with_run.mails[-1], time=116.0))
    with_run.only("messages doubled that were not in flight: dan@people.example")


def test_a_mail_of_a_step_that_did_not_come_is_found(with_run: World) -> None:
    with_run.mails.pop()
    with_run.only("recipients in a wrong state: dan@people.example is delivered")


def test_a_call_that_is_missing_or_repeated_is_found(with_run: World) -> None:
    whole = with_run.deliveries
    for change in (
        lambda events: [event for event in events if event["object"] != "automation"],
        lambda events: [*events, *(event for event in events if event["object"] == "automation")],
    ):
        with_run.deliveries = whole
        with_run.change_events(change)
        with_run.only("calls of runs missing or repeated (acme): dan@people.example")


def test_a_change_by_a_run_without_an_event_is_found(with_run: World) -> None:
    with_run.change_events(
        lambda events: [event for event in events if (event.get("id"), event["event"]) != (9, "updated")]
    )
    with_run.only("changes by runs without an event (acme): dan@people.example")


def test_counts_of_a_step_that_do_not_match_are_found(with_run: World) -> None:
    with_run.groups[11] = {**with_run.groups[11], "delivered": 2}
    with_run.only("groups that miscount: group 11")


# ------------------------------------------------------------------------------------------ people who were forgotten


@pytest.fixture
def without_ann(world: World) -> World:
    """A sound world in which ANN was forgotten after her mail had been sent."""
    world.forgotten = {ANN}
    world.accepted = {ANN: f"uuid of {ANN}"}
    world.people[0] = replace(world.people[0], address="", steps=("sent", "forgotten"))
    del world.contacts["acme"][ANN]
    world.change_events(lambda events: [*events, *(_contact("deleted", 1) for event in events if event.get("id") == 1)])
    return world


def test_a_person_who_was_forgotten_breaks_no_guarantee(without_ann: World) -> None:
    assert without_ann.broken() == []


def test_a_person_who_was_forgotten_and_is_still_there_is_found(without_ann: World) -> None:
    without_ann.people[0] = replace(without_ann.people[0], address=ANN)
    without_ann.only("forgotten people that are still there: ann@people.example")


def test_an_address_that_somebody_else_has_lost_is_found(without_ann: World) -> None:
    without_ann.people[3] = replace(without_ann.people[3], address="")
    without_ann.among("messages without an address whose recipient was not forgotten: uuid of 61411111111")


def test_a_message_to_a_forgotten_person_ends(without_ann: World) -> None:
    without_ann.people[0] = replace(without_ann.people[0], state="queued")
    without_ann.among("messages to forgotten people that have not ended: uuid of ann@people.example is queued")


# ------------------------------------------------------------------------------------------ restored backups


def in_backup(world: World, restored: Facts) -> list[str]:
    """What is wrong about a backup that was begun after all requests had been answered."""
    seen = RoundRecord(mails=world.mails, texts=world.texts, accepted={ANN: f"uuid of {ANN}"}, answered={ANN: 105.0})
    all_broken = check_backup.broken(106.0, seen, world.facts(), restored)
    return [f"{what}: {', '.join(examples)}" for what, examples in all_broken if examples]


def test_a_sound_backup_holds_what_had_been_accepted(world: World) -> None:
    people = [replace(world.people[0], state="held", steps=()), *world.people[1:]]
    groups = {**world.groups, 1: {**world.groups[1], "delivered": 1}}
    assert in_backup(world, replace(world.facts(), people=people, groups=groups, hours=groups)) == []


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        (None, "accepted messages are missing: ann@people.example"),
        ({"uuid": "another"}, "messages are of nobody: ann@people.example"),
        ({"state": "queued"}, "messages are neither settled nor held: ann@people.example is queued"),
        ({"address": "x@people.example"}, "messages are sent that nobody has: x@people.example"),
        ({"state": "held"}, "groups that miscount: group 1"),
    ],
)
def test_a_backup_of_more_than_one_moment_is_found(
    world: World, changed: dict[str, Any] | None, complaint: str
) -> None:
    first = [] if changed is None else [replace(world.people[0], **changed)]
    complaints = in_backup(world, replace(world.facts(), people=[*first, *world.people[1:]]))
    assert any(line.startswith(complaint) for line in complaints), complaints
