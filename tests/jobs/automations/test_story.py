"""One story through HTTP, with a clock that is moved: contacts come in every way and leave in every way, and what
mails, events, reports and sent contacts say of it is the same."""

from __future__ import annotations

from collections import Counter

import pytest

from app.inbound.effect import Effect
from app.inbound.email.receive import EmailResult, receive_email
from app.runs.read import count_steps
from app.tracking.feedback_channels import unsubscribe_link
from app.tracking.tokens import return_path
from tests.jobs.automations.conftest import ADVANCED, CREATED, UPDATED, Story
from tests.support.mail_reports import delivery_failure
from tests.support.sends import SendsApi
from tests.support.tenants import new_email

SERIES = [
    {"name": "hello", "send": "Hello"},
    {
        "name": "came back",
        "branch": {"step": "hello", "did": "bounced", "within": "1 day"},
        "then": [{"name": "give up", "stop": True}],
    },
    {"name": "a day", "wait": "1 day"},
    {"name": "again", "send": "Again"},
]
SENT_BY = {"Welcome": "welcomed", "Thanks": "thanked", "Hello": "hello", "Changed": "changed", "Again": "again"}
"""Message -> the step that sends it."""


class Tale:
    """Five people, and four automations: one of each kind for each trigger."""

    def __init__(self, story: Story) -> None:
        self.story, self.api = story, story.tenant.api
        story.rows.add_webhook()
        self.messages = {
            name: story.tenant.add_message(name=name, subject=f"{name} %%first_name**you%%") for name in SENT_BY
        }
        steps: dict[str, int] = {}
        standard = {"welcomed": (CREATED, "Welcome"), "thanked": (UPDATED, "Thanks")}
        self.automations = []
        for step, (trigger, message) in standard.items():
            self.automations.append(story.automation(kind="standard", trigger=trigger, message=message))
            steps[step] = story.steps["message"]
        changed = [{"name": "changed", "send": "Changed"}]
        self.series = story.automation(**ADVANCED, steps=SERIES)
        self.automations.append(self.series)
        self.automations.append(
            story.automation(**{**ADVANCED, "trigger": "REST API Contact Updated"}, steps=changed),
        )
        self.steps = {**story.steps, **steps}
        self.emails = {name: new_email() for name in ("Ann", "Bea", "Cid", "Dan", "Eve")}
        self.contacts: dict[str, int] = {}

    def create(self) -> None:
        """Two contacts alone, two in bulk, and one by a send."""
        people = {name: {"email": email, "first_name": name} for name, email in self.emails.items()}
        path = f"/v1/lists/{self.story.list_id}/contacts"
        for name in ("Ann", "Eve"):
            assert self.api.post(path, people[name]).status_code == 201
        assert self.api.post(path, {"contacts": [people["Bea"], people["Cid"]]}).status_code == 204
        sends = SendsApi(self.story.tenant)
        sends.send(sends.email(list_id=self.story.list_id, recipients=[people["Dan"]]))
        contacts = self.api.get(path, {"limit": 10}).get_json()["_embedded"]["contacts"]
        names = {email: name for name, email in self.emails.items()}
        self.contacts = {names[contact["email"]]: contact["id"] for contact in contacts}

    def leave(self) -> None:
        """One is deleted, one unsubscribes, and the mail to one comes back."""
        settings, story = self.story.worker.settings, self.story
        cid, dan = (self.hello_to(name) for name in ("Cid", "Dan"))
        assert self.api.delete(f"/v1/lists/{story.list_id}/contacts/{self.contacts['Bea']}").status_code == 204
        link = unsubscribe_link(settings, cid).removeprefix(settings.public_url)
        assert self.api.request("POST", link).status_code == 200
        report = delivery_failure(return_path(settings, dan, f"hello@{story.tenant.domain}"), self.emails["Dan"])
        assert receive_email(story.worker, report, (), patience=0) == EmailResult("failed", Effect.RECORDED)

    def hello_to(self, name: str) -> int:
        """The id of the recipient to whom the series has said hello."""
        step_id = self.steps["hello"]
        (hello,) = [
            recipient for recipient in self.story.recipients(self.contacts[name]) if recipient.group_id == step_id
        ]
        return hello.id

    def set_state(self, verb: str) -> None:
        """Pauses or resumes the series."""
        assert self.api.post(f"/v1/automations/{self.series}/{verb}", {}).status_code == 200

    def mails(self) -> Counter[tuple[str, str]]:
        """Name and subject of what the relay has got."""
        names = {email: name for name, email in self.emails.items()}
        return Counter((names[to], subject) for to, subject in self.story.mails())

    def go(self) -> None:
        """The whole story."""
        story = self.story
        self.create()
        story.work()
        for first_name in ("Anna", "Anne"):
            story.change(self.contacts["Ann"], first_name=first_name)
        story.work()
        self.leave()
        story.work()
        self.set_state("pause")
        story.calendar.move(days=1, seconds=1)
        story.work()
        self.set_state("resume")
        story.work()
        story.calendar.move(days=1)
        story.work()


@pytest.fixture
def tale(story: Story) -> Tale:
    """The story, told to its end."""
    told = Tale(story)
    told.go()
    return told


def test_each_automation_reacts_once_to_each_contact_however_it_came_and_until_it_left(tale: Tale) -> None:
    # What a send says of a contact that it creates is for that send alone.
    called = {name: "you" if name == "Dan" else name for name in tale.emails}
    greetings = [(name, f"{word} {called[name]}") for word in ("Welcome", "Hello") for name in tale.emails]
    thanks = [("Ann", "Thanks Anne"), ("Ann", "Thanks Anne"), ("Ann", "Changed Anne")]
    assert tale.mails() == Counter(
        [*greetings, ("Dan", "A subject"), *thanks, ("Ann", "Again Anne"), ("Eve", "Again Eve")]
    )
    ends = {run.contact_id: run.reason for run in tale.story.runs(tale.series)}
    reasons = {"Bea": "contact deleted", "Dan": "stopped"}
    assert ends == {id_: reasons.get(name, "completed") for name, id_ in tale.contacts.items()}
    assert ("again", "skipped", "unsubscribed") in tale.story.passed(tale.contacts["Cid"])
    subjects = [subject for to, subject in tale.story.mails() if to == tale.emails["Eve"]]
    assert (sorted(subjects[:2]), subjects[2:]) == (["Hello Eve", "Welcome Eve"], ["Again Eve"])


def test_mails_events_reports_and_sent_contacts_agree(tale: Tale) -> None:
    with tale.story.worker.database.read() as session:
        reported = {
            name: counts.reported
            for automation_id in tale.automations
            for name, counts in count_steps(session, tale.story.tenant.id, automation_id).items()
            if name != "message"
        } | {
            step: count_steps(session, tale.story.tenant.id, automation_id)["message"].reported
            for step, automation_id in zip(("welcomed", "thanked"), tale.automations, strict=False)
        }
    sent, bounced = tale.story.events("sent"), tale.story.events("bounced")
    for message, step in SENT_BY.items():
        report_filter = {"report_id": str(tale.steps[step])}
        path = f"/v1/messages/{tale.messages[message]}/sent-contacts"
        listed = tale.api.get(path, report_filter).get_json()["_embedded"]["sent-contacts"]
        mails = sum(count for (_, subject), count in tale.mails().items() if subject.startswith(message))
        events = [event for event in sent if event.get("step_id") == tale.steps[step]]
        came_back = [event for event in bounced if event.get("step_id") == tale.steps[step]]
        assert mails == len(listed) == len({event["uuid"] for event in events}) == reported[step]["sent"], step
        assert (reported[step]["bounced"], reported[step]["delivered"]) == (len(came_back), mails - len(came_back))
        assert {event["report_id"] for event in events} == {tale.steps[step]}
        assert all(event["automation_id"] in tale.automations and "group_id" not in event for event in events)
    assert [event["email"] for event in bounced] == [tale.emails["Dan"]]
    assert tale.mails().total() == len(sent)
