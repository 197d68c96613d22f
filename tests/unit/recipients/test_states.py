"""States of recipients and steps of timelines: stored values and the indexes that rely on them."""

from __future__ import annotations

import re

from app.db.models import QueueEntry, table_of
from app.recipients.states import UNSETTLED_STATES, RecipientState
from app.recipients.timeline import TimelineStep


def test_the_stored_states_are_the_documented_ones() -> None:
    assert [state.value for state in RecipientState] == [
        *("scheduled", "queued", "sending", "uncertain", "held", "paused", "sent", "delivered", "bounced", "failed")
    ]


def test_the_stored_steps_are_never_renamed() -> None:
    assert [step.value for step in TimelineStep] == [
        *("sent", "deferred", "uncertain", "bounced", "failed", "recovered", "requeued", "held"),
        *("paused", "resumed"),
        *("acknowledged", "received", "reported arrived", "reported delayed", "complained", "unsubscribed"),
        *("resubscribed",),
        *("forgotten", "opened", "clicked", "opened by machine", "clicked by machine"),
    ]


def test_each_partial_index_over_a_state_names_an_existing_state() -> None:
    predicates = [
        str(options["where"])
        for index in table_of(QueueEntry).indexes
        for options in (index.dialect_options["postgresql"], index.dialect_options["sqlite"])
        if options["where"] is not None
    ]
    named = {state for predicate in predicates for state in re.findall(r"\bstate = '(\w+)'", predicate)}
    assert named == set(UNSETTLED_STATES)
