"""The rules of automations against a second, simple reading of them, over random automations and random histories."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from app.automations.definition import Channel, Definition, Send, SetFields, Unsubscribe
from app.automations.facts import ContactFacts, Facts, Fate, Passage, Place, StepResult
from app.automations.walk import RunEnd, RunWait, Walk, refused, walk
from app.automations.written import written_definition
from tests.support.automation_draws import automations, histories
from tests.support.automation_model import ContactModel, History, Line, Story, play
from tests.support.definitions import parsed

CHANNELS: tuple[Channel, ...] = ("email", "mobile")


class Runner:
    """Walks a run as a worker does: when it is due, when an outcome wakes it, and now and then for nothing."""

    def __init__(self, definition: Definition, history: History, idle: list[timedelta]) -> None:
        self.definition = definition
        self.history = history
        self.contact = ContactModel(history)
        self.lines: list[Line] = []
        self.place = Place(definition.first.name, history.start, None, history.start)
        self.watched: str | None = None
        self._seen: set[tuple[str | None, datetime, str, str | None]] = set()
        """The outcomes that a walk has known of."""
        self._idle = sorted(history.start + after for after in idle)

    def story(self) -> Story:
        now = self.history.start
        while True:
            now = self.history.worker_time(max(now, self._next_look(now)))
            walked = self._walk(now)
            self.lines += [Line(now, passed.step, passed.result, passed.detail) for passed in walked.passed]
            if isinstance(walked.next, RunEnd):
                return Story(tuple(self.lines), walked.next.reason)
            self._move(walked.next)

    def _next_look(self, now: datetime) -> datetime:
        outcomes = self._outcomes(self.watched) if self.watched else []
        woken = [moment for moment, did, link in outcomes if (self.watched, moment, did, link) not in self._seen]
        return min([self.place.due_time, *woken, *(moment for moment in self._idle if moment > now)])

    def _outcomes(self, step: str) -> list[tuple[datetime, str, str | None]]:
        sent = next(line.time for line in self.lines if line.step == step)
        happenings = self.history.happenings.get(step, ())
        return [(sent + happening.after, happening.did, happening.link) for happening in happenings]

    def _walk(self, now: datetime) -> Walk:
        self.contact.pass_time(now)
        walked = walk(self.definition, self.place, self._facts(now))
        effect = walked.effect
        if isinstance(effect, Send) and effect.name in self.history.refusals:
            return refused(self.definition, walked, self.history.refusals[effect.name], now)
        if isinstance(effect, Send):
            self.contact.get_message(effect, now)
        if isinstance(effect, SetFields):
            for key, value in effect.values.items():
                self.contact.set(key, value)
        if isinstance(effect, Unsubscribe):
            for channel in effect.channels:
                self.contact.unsubscribe(channel)
        return walked

    def _facts(self, now: datetime) -> Facts:
        model = self.contact
        closed = {channel: model.refused[channel] for channel in CHANNELS if channel in model.refused}
        contact = ContactFacts(dict(model.values), is_active=model.is_active, refused=closed)
        sent = [line for line in self.lines if isinstance(self.definition.by_name[line.step], Send)]
        fates = {line.step: self._fate(line.step, now) for line in sent if line.result == "done"}
        passed = {line.step: Passage(line.time, StepResult(line.result)) for line in self.lines}
        return Facts(now, self.history.zone, contact if model.exists else None, passed, fates)

    def _fate(self, step: str, now: datetime) -> Fate:
        outcomes = sorted(outcome for outcome in self._outcomes(step) if outcome[0] <= now)
        self._seen |= {(step, *outcome) for outcome in outcomes}
        first = {did: moment for moment, did, link in reversed(outcomes) if link is None}
        return Fate(**first, clicked={link: moment for moment, _, link in reversed(outcomes) if link})

    def _move(self, following: RunWait) -> None:
        step_time, due = following.step_time, following.due_time
        self.place = Place(following.step, self.history.start, step_time, due)
        self.watched = following.watched


@settings(max_examples=100, derandomize=True)
@given(data=st.data(), definition=automations())
def test_the_rules_agree_with_a_simple_reading_of_them(data: st.DataObject, definition: Definition) -> None:
    """On every step that is passed, when and how, and on the end. Looking at a run for nothing changes nothing."""
    history = data.draw(histories(definition))
    idle = data.draw(
        st.lists(st.integers(1, 9 * 86400).map(lambda seconds: timedelta(seconds=seconds)), min_size=2, max_size=4)
    )
    assert Runner(definition, history, idle).story() == play(definition, history)


@settings(max_examples=50, derandomize=True)
@given(definition=automations())
def test_an_automation_is_the_same_when_it_is_written_and_read_again(definition: Definition) -> None:
    written = written_definition(definition)
    assert written_definition(parsed(written)) == written
