"""The whole engine against a simple reading of the rules: random automations, and random histories of their contacts,
through HTTP and the workers under a clock that the test moves (docs/automation-runs.md#rules)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, func, select

from app.automations.definition import Branch, Definition, Outcome, Send, Step, Unsubscribe
from app.automations.written import written_definition
from app.db.models import Automation, AutomationPassedStep, AutomationRun, AutomationStep, Message
from app.inbound.email.record import record_report
from app.inbound.email.report import Report, ReportKind
from app.tracking.links import InlineLink, link_token
from tests.jobs.automations.conftest import ADVANCED, READER, Story
from tests.support.automation_draws import LINKS, STARTS, WEBHOOK, ZONES, automations, histories, outages_from
from tests.support.automation_model import Change, Happening, History, Line, play
from tests.support.automation_model import Story as ModelStory
from tests.support.tenants import new_email, new_mobile, unique

NUMBER = "61400000000"
FIELDS = (
    ("Email", "Email"),
    ("Mobile", "Mobile Phone"),
    ("Plan", "Text Field"),
    ("Status", "Text Field"),
    ("Born", "Date of Birth"),
)
WHOLE_SECONDS = tuple(start for start in STARTS if not start.microsecond)


@dataclass
class Case:
    """A contact in an automation of its own."""

    definition: Definition
    history: History
    name: str = field(default_factory=lambda: unique("case"))
    email: str = field(default_factory=new_email)
    list_id: int = 0
    automation_id: int = 0
    contact_id: int = 0
    changes: list[Change] = field(default_factory=list)
    """Changes of the contact that are still to come."""
    outcomes: list[tuple[datetime, int, Happening]] = field(default_factory=list)
    """Outcomes that are still to come of messages that have been sent, with the ids of their recipients."""
    steps_sent: set[str] = field(default_factory=set)


@st.composite
def cases_at_once(draw: st.DrawFn) -> list[Case]:
    """Cases of one account, so with one zone, and of the same workers, so with the same outages."""
    start, zone = draw(st.sampled_from(WHOLE_SECONDS)), draw(st.sampled_from(ZONES))
    outages = draw(outages_from(start))
    definitions = draw(st.lists(automations(), min_size=6, max_size=6))
    return [
        Case(definition, possible(draw(histories(definition, start, zone, outages)), definition))
        for definition in definitions
    ]


def possible(history: History, definition: Definition) -> History:
    """The history as the service can see one: what is accepted by a folder is delivered at once, a click is an open,
    too, and nothing happens to a contact that was deleted."""
    deleted = [number for number, change in enumerate(history.changes) if change.what == "delete"]
    changes = history.changes[: deleted[0] + 1] if deleted else history.changes
    happenings = {
        name: tuple(possible_outcomes(drawn)) if sends_mail(definition, name) else DELIVERED
        for name, drawn in history.happenings.items()
    }
    return replace(history, changes=changes, happenings=happenings)


DELIVERED = (Happening(timedelta(), "delivered"),)


def sends_mail(definition: Definition, name: str) -> bool:
    step = definition.by_name[name]
    return isinstance(step, Send) and step.message_type == "email"


def possible_outcomes(drawn: tuple[Happening, ...]) -> Iterator[Happening]:
    yield from DELIVERED
    for happening in drawn:
        if happening.did == "clicked":
            yield Happening(happening.after, "opened")
        if happening.did == "bounced":
            yield Happening(max(happening.after, timedelta(seconds=1)), "bounced")
        elif happening.did != "delivered":
            yield happening


class Engine:
    """Lets the cases happen: what comes from outside at its time, and the workers whenever something is due."""

    def __init__(self, story: Story, cases: list[Case]) -> None:
        self.story = story
        self.cases = cases
        self.history = cases[0].history
        story.calendar.moment = self.history.start
        story.set_account(time_zone=str(self.history.zone))

    def prepare(self) -> None:
        """Stores lists, messages and automations."""
        with self.story.worker.database.write() as transaction:
            transaction.execute(delete(Automation))
        for case in self.cases:
            case.list_id = self.story.list_id = self.story.tenant.add_list(case.name, FIELDS)
            case.changes = list(case.history.changes)
            refused = [self.add_message(case, step) for step in senders(case.definition)]
            document = written_definition(with_own_messages(case))
            case.automation_id = self.story.automation(**{**ADVANCED, **document, "list": case.name, "name": case.name})
            with self.story.worker.database.write() as transaction:
                transaction.execute(
                    delete(Message).where(Message.id.in_([message_id for message_id in refused if message_id]))
                )

    def add_message(self, case: Case, step: Send) -> int | None:
        """The message of the step, whose subject or text is its name, with the links that branches ask about; its id
        where it is to be deleted."""
        name = f"{case.name} {step.name}"
        sms = {"type": "sms", "subject": None, "body_html": None, "body_text": f"{name} STOP", "from_name": None}
        email = {"subject": name, "body_text": " ".join(LINKS)}
        values = {**sms, "from_address": NUMBER} if step.message_type == "sms" else email
        message_id = self.story.tenant.add_message(**{"name": name, **values})
        return message_id if step.name in case.history.refusals else None

    def run(self) -> None:
        for case in self.cases:
            self.story.list_id = case.list_id
            case.contact_id = self.story.contact(email=case.email, mobile=new_mobile(), **case.history.values)
        moment: datetime | None = self.history.start
        while moment is not None:
            self.story.calendar.moment = moment
            while self.happen() or self.is_due(moment):
                self.work(moment)
            moment = self.next_moment()

    def is_due(self, moment: datetime) -> bool:
        due = self.next_due()
        return due is not None and due <= moment == self.history.worker_time(moment)

    def next_due(self) -> datetime | None:
        with self.story.worker.database.read() as session:
            waiting = AutomationRun.account_id == self.story.tenant.id, AutomationRun.state == "waiting"
            return session.scalar(select(func.min(AutomationRun.due_time)).where(*waiting))

    def next_moment(self) -> datetime | None:
        coming = [change.time for case in self.cases for change in case.changes[:1]]
        coming += [moment for case in self.cases for moment, _, _ in case.outcomes]
        due = self.next_due()
        return min([*coming, *([self.history.worker_time(due)] if due else [])], default=None)

    def work(self, moment: datetime) -> None:
        if self.history.worker_time(moment) == moment:
            self.story.work()
            self.find_sent(moment)

    def find_sent(self, moment: datetime) -> None:
        for case in self.cases:
            for recipient_id, step in self.sent(case):
                if step not in case.steps_sent:
                    case.steps_sent.add(step)
                    happenings = case.history.happenings.get(step, ())
                    case.outcomes += [(moment + happening.after, recipient_id, happening) for happening in happenings]

    def sent(self, case: Case) -> list[tuple[int, str]]:
        """The messages of the contact, with their steps: by the steps that the run has passed."""
        passed = AutomationPassedStep
        statement = (
            select(passed.recipient_id, AutomationStep.name)
            .join(AutomationStep, AutomationStep.id == passed.step_id)
            .join(AutomationRun, AutomationRun.id == passed.run_id)
            .where(AutomationRun.automation_id == case.automation_id, passed.recipient_id.is_not(None))
        )
        with self.story.worker.database.read() as session:
            return [(row.recipient_id, row.name) for row in session.execute(statement.order_by(passed.id))]

    def happen(self) -> bool:
        """Lets happen what has come; whether there was anything."""
        moment, happened = self.story.calendar.moment, False
        for case in self.cases:
            while case.changes and case.changes[0].time <= moment:
                self.change(case, case.changes.pop(0))
                happened = True
            for outcome in [outcome for outcome in case.outcomes if outcome[0] <= moment]:
                case.outcomes.remove(outcome)
                self.become(case, outcome[1], outcome[2])
                happened = True
        return happened

    def change(self, case: Case, change: Change) -> None:
        self.story.list_id = case.list_id
        match change.what.split():
            case ["delete"]:
                path = f"/v1/lists/{case.list_id}/contacts/{case.contact_id}"
                assert self.story.tenant.api.delete(path).status_code == 204
            case ["activate" | "deactivate" as what]:
                self.story.change(case.contact_id, is_active=what == "activate")
            case ["subscribe" | "unsubscribe" as what, channel]:
                self.story.change(case.contact_id, subscribed={channel: what == "subscribe"})
            case [key]:
                self.story.change(case.contact_id, **{key: change.value})

    def become(self, case: Case, recipient_id: int, happening: Happening) -> None:
        recipient = next(
            recipient for recipient in self.story.recipients(case.contact_id) if recipient.id == recipient_id
        )
        match happening.did:
            case "opened":
                self.story.opens(recipient)
            case "clicked":
                link = InlineLink(recipient_id, "html_email", happening.link or "")
                token = link_token(self.story.worker.settings.secret_key, link)
                assert self.story.tenant.api.get(f"/c/{token}", headers=READER).status_code == 302
                self.story.flush_visits()
            case "bounced":
                report = Report(ReportKind.FAILED, "5.1.1", "550 no such mailbox", frozenset({case.email}))
                with self.story.worker.database.write() as transaction:
                    record_report(transaction, recipient_id, report, unique("report"))

    def told(self, case: Case) -> ModelStory:
        """What the run has passed, and why it ended."""
        passed = AutomationPassedStep
        statement = (
            select(passed.time, AutomationStep.name, passed.result, passed.detail)
            .join(AutomationStep, AutomationStep.id == passed.step_id)
            .join(AutomationRun, AutomationRun.id == passed.run_id)
            .where(AutomationRun.automation_id == case.automation_id)
        )
        with self.story.worker.database.read() as session:
            lines = tuple(Line(*row) for row in session.execute(statement.order_by(passed.id)))
        (run,) = self.story.runs(case.automation_id)
        assert run.state == "ended"
        return ModelStory(lines, run.reason or "")


def senders(definition: Definition) -> list[Send]:
    return [step for step in definition.by_name.values() if isinstance(step, Send)]


def with_own_messages(case: Case) -> Definition:
    """The automation where each step sends a message of its own."""

    def with_own_message(step: Step) -> Step:
        if isinstance(step, Branch):
            return replace(
                step,
                then=tuple(map(with_own_message, step.then)),
                otherwise=tuple(map(with_own_message, step.otherwise)),
            )
        return replace(step, message=f"{case.name} {step.name}") if isinstance(step, Send) else step

    return replace(case.definition, steps=tuple(map(with_own_message, case.definition.steps)))


def described(told: ModelStory) -> list[str]:
    """The story line by line, which is how a difference is seen at once."""
    lines = (f"{line.time} {line.step}: {line.result} {line.detail or ''}".rstrip() for line in told.lines)
    return [*lines, told.end]


def mails_told(case: Case, story: ModelStory) -> list[tuple[str, str]]:
    """The mails that the relay must have got: all that steps have sent, but for those that still waited for a sender
    when another step unsubscribed the contact. The senders work when no run is due any more."""
    mailed: list[str] = []
    waiting: list[str] = []
    moment = None
    for line in story.lines:
        step = case.definition.by_name[line.step]
        # A run that goes on because of what became of a mail has let the senders work.
        asked = step.on.step if isinstance(step, Branch) and isinstance(step.on, Outcome) else None
        if line.time != moment or (asked in waiting and line.result == "then"):
            mailed, waiting, moment = mailed + waiting, [], line.time
        if isinstance(step, Unsubscribe) and "email" in step.channels and line.result == "done":
            waiting = []
        elif line.result == "done" and sends_mail(case.definition, line.step):
            waiting.append(line.step)
    return [(case.email, f"{case.name} {step}") for step in mailed + waiting]


@pytest.fixture
def outside(story: Story) -> None:
    """What steps need of the account."""
    story.tenant.add_sender(NUMBER)
    story.add_webhook(WEBHOOK)


@pytest.mark.usefixtures("outside")
@settings(
    max_examples=3,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
@given(cases=cases_at_once())
def test_the_engine_agrees_with_a_simple_reading_of_the_rules(story: Story, cases: list[Case]) -> None:
    """On every step that is passed, when and how, on the end, and on what the relay got."""
    engine = Engine(story, cases)
    engine.prepare()
    engine.run()
    expected = {case.name: play(case.definition, case.history) for case in cases}
    for case in cases:
        assert described(engine.told(case)) == described(expected[case.name]), case
    names = {case.name for case in cases}
    mails = [mail for mail in story.mails() if mail[1].partition(" ")[0] in names]
    assert sorted(mails) == sorted(mail for case in cases for mail in mails_told(case, expected[case.name]))
