"""One rule says who gets nothing, and why: delivery, a dry run, `sends explain` and the step of an automation give the
same reason (docs/delivery.md#skipped-recipients)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from app.addresses import AddressKind
from app.contacts.suppress import block, unsubscribe
from app.db.due import DueAccounts
from app.db.models import AutomationPassedStep, AutomationRun, Contact, QueueEntry
from app.db.queue import RUN_QUEUE
from app.privacy.forget import forget
from app.recipients.states import FailReason
from app.runs.work import advance_due
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import close_sender_worker
from app.sends.skipping import STORED_REASONS
from app.services import Services
from tests.cli.conftest import Cli
from tests.jobs.conftest import changed
from tests.support.automations import add_automation
from tests.support.client import SENDS
from tests.support.sends import AcceptedSend, SendsApi
from tests.support.servers import PATIENCE
from tests.support.tenants import FULL_FIELDS, Tenant, new_email, new_mobile, unique
from tests.support.testing import refreshed

WORDS = {
    "has been deleted": FailReason.CONTACT_DELETED,
    "is not active": FailReason.CONTACT_INACTIVE,
    "has no address to send to": FailReason.ADDRESS_MISSING,
    "has been blocked since": FailReason.BLOCKED,
    "has been unsubscribed account-wide since": FailReason.UNSUBSCRIBED,
    "has been unsubscribed in the list": FailReason.UNSUBSCRIBED,
    "is unsubscribed.": FailReason.UNSUBSCRIBED,
}
"""What `sends explain` says -> the reason."""
SKIPS = {*WORDS.values(), *STORED_REASONS}


@dataclass
class Person:
    """Somebody with a contact in a list, and with a run that is about to send."""

    tenant: Tenant
    worker: Services
    kind: AddressKind
    is_test: bool = False
    include_unsubscribed: bool = False
    contact_id: int | None = None
    addresses: dict[AddressKind, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sends = SendsApi(self.tenant)
        self.due = DueAccounts(RUN_QUEUE, full_share=1e-9)
        email = "open@simulator.test" if self.is_test else new_email()
        mobile = "447700900003" if self.is_test else new_mobile()
        self.addresses = {"email": email, "mobile": mobile}
        self.message = unique("message")
        sms = {"type": "sms", "from_address": self.sends.number, "subject": None, "body_html": None}
        sms_fields = {**sms, "body_text": "Reply STOP"} if self.kind == "mobile" else {}
        self.tenant.add_message(name=self.message, **sms_fields)

    @property
    def address(self) -> str:
        return self.addresses[self.kind]

    def enter(self, list_id: int) -> None:
        """Becomes a contact of the list, which begins a run."""
        steps = [{"name": "hello", "send": self.message}]
        document = {"name": unique("hello"), "kind": "advanced", "trigger": "REST API Contact Created", "steps": steps}
        add_automation(self.worker, self.tenant.id, list_id, document)
        self.contact_id = int(self.tenant.new_contact(list_id, **self.addresses)["id"])

    def change(self, **values: Any) -> None:
        """Sets columns of the contact alone, as no request does."""
        with self.worker.database.write() as transaction:
            transaction.execute(update(Contact).where(Contact.id == self.contact_id).values(**values))

    def delete(self) -> None:
        with self.worker.database.write() as transaction:
            transaction.execute(delete(Contact).where(Contact.id == self.contact_id))

    def block(self) -> None:
        with self.worker.database.write() as transaction:
            block(transaction, self.tenant.id, self.kind, self.address, "complaint")

    def unsubscribe(self, *, account_wide: bool = False) -> None:
        list_id = None if account_wide else self.sends.list_id
        with self.worker.database.write() as transaction:
            unsubscribe(transaction, self.tenant.id, self.kind, self.address, list_id)

    def forget(self) -> None:
        """What the address was suppressed by stays under a digest."""
        forget(self.worker, [self.tenant.id], self.kind, self.address, wait=PATIENCE)
        self.contact_id = None

    def body(self) -> dict[str, Any]:
        """A send to the contact, else to the address: a text without a list, which makes it no contact."""
        to = {self.kind: self.address} if self.contact_id is None else {"contact_id": self.contact_id}
        given = {"recipients": [to], "include_unsubscribed": self.include_unsubscribed}
        if self.kind == "email":
            return self.sends.email(**given)
        without_list = {"list_id": None, "unsubscribe_type": "none"} if self.contact_id is None else {}
        return self.sends.sms(**given, **without_list)

    def accepted(self) -> AcceptedSend:
        return self.sends.send(self.body())

    def in_dry_run(self) -> str | None:
        response = self.tenant.api.post(f"{SENDS}?dry_run=true", self.body())
        assert response.status_code == 200, response.text
        (recipient,) = response.get_json()["_embedded"]["recipients"]
        assert (recipient["outcome"] == "skip") == (recipient["reason"] is not None)
        return str(recipient["reason"]) if recipient["reason"] else None

    def explained(self, accepted: AcceptedSend) -> str | None:
        """The first reason that is named."""
        findings = Cli(self.tenant.app).json("sends", "explain", accepted.recipient.uuid)["findings"]
        said = (reason for finding in findings for words, reason in WORDS.items() if words in finding["text"])
        return next(said, None)

    def delivered(self, accepted: AcceptedSend) -> str | None:
        drain(self.worker)
        recipient = accepted.recipient
        assert (recipient.state == "failed") == (recipient.reason in SKIPS)
        return recipient.reason if recipient.reason in SKIPS else None

    def passed(self) -> str | None:
        """Why the step that sends was skipped, or the run ended before it."""
        while advance_due(self.worker, self.due):
            pass
        run, passed = AutomationRun, AutomationPassedStep
        with self.worker.database.read() as session:
            query = select(run).where(run.account_id == self.tenant.id).order_by(run.id.desc())
            last = session.scalars(query).first()
            assert last is not None
            steps = session.scalars(select(passed).where(passed.run_id == last.id)).all()
        if not steps:
            return (last.reason or "").replace(" ", "_")
        assert [step.result for step in steps] == ["skipped" if steps[0].detail else "done"]
        return steps[0].detail


@dataclass(frozen=True)
class Case:
    """What is the matter with a person, and the reason that all give; `apart` are those that rightly give another."""

    make: Callable[[Person], object]
    reason: str | None
    apart: Mapping[str, str | None] = field(default_factory=dict)
    person: Mapping[str, Any] = field(default_factory=dict)
    is_late: bool = False
    """Whether it happens after the send was accepted."""


def flag_off(person: Person) -> None:
    person.change(**{f"subscribed_{person.kind}": False})


def address_gone(person: Person) -> None:
    person.change(**({"email": None, "email_key": None} if person.kind == "email" else {"mobile": None}))


def blocked_and_unsubscribed(person: Person) -> None:
    person.unsubscribe()
    person.block()


def all_at_once(person: Person) -> None:
    blocked_and_unsubscribed(person)
    person.change(is_active=False)


def forgotten(*suppress: Callable[[Person], object]) -> Callable[[Person], None]:
    def make(person: Person) -> None:
        for suppress_person in suppress:
            suppress_person(person)
        person.forget()

    return make


def wide(person: Person) -> None:
    person.unsubscribe(account_wide=True)


INCLUDED: dict[str, Any] = {"include_unsubscribed": True}
TEST: dict[str, Any] = {"is_test": True}
# A step never includes who is unsubscribed.
AUTOMATED: dict[str, str | None] = {"automation": "unsubscribed"}
CASES = {
    "nothing": Case(lambda _: None, None),
    "deleted": Case(Person.delete, "contact_deleted", {"dry run": "invalid_contact_id"}, is_late=True),
    "inactive": Case(lambda person: person.change(is_active=False), "contact_inactive"),
    "address missing": Case(address_gone, "address_missing"),
    "blocked": Case(Person.block, "blocked"),
    "blocked, then forgotten": Case(forgotten(Person.block), "blocked"),
    "unsubscribed account-wide": Case(wide, "unsubscribed"),
    "unsubscribed account-wide, then forgotten": Case(forgotten(wide), "unsubscribed"),
    "unsubscribed in the list": Case(Person.unsubscribe, "unsubscribed"),
    "unsubscribed by the flag": Case(flag_off, "unsubscribed"),
    "blocked and unsubscribed": Case(blocked_and_unsubscribed, "blocked"),
    "all at once": Case(all_at_once, "contact_inactive"),
    "included, account-wide": Case(wide, None, AUTOMATED, INCLUDED),
    "included, in the list": Case(Person.unsubscribe, None, AUTOMATED, INCLUDED),
    "included, by the flag": Case(flag_off, None, AUTOMATED, INCLUDED),
    "included and blocked": Case(Person.block, "blocked", {}, INCLUDED),
    "magic and blocked": Case(Person.block, None, {}, TEST),
    "magic and unsubscribed": Case(Person.unsubscribe, None, {}, TEST),
    "magic and unsubscribed by the flag": Case(flag_off, None, {}, TEST),
    "magic and inactive": Case(lambda person: person.change(is_active=False), "contact_inactive", {}, TEST),
}


@pytest.fixture
def worker(tenant: Tenant, tmp_path: Path) -> Iterator[Services]:
    """Sends into folders."""
    with tenant.services.database.write() as transaction:
        for model in (AutomationRun, QueueEntry):
            transaction.execute(delete(model))
    folders = {f"{kind}_transport_url": f"file://{tmp_path / kind}" for kind in ("email", "sms")}
    made = changed(tenant.services, data_dir=tmp_path / "data", **folders)
    yield made
    close_sender_worker(made)


@pytest.mark.parametrize("kind", ["email", "mobile"])
@pytest.mark.parametrize("name", CASES)
def test_delivery_dry_run_explain_and_automation_give_one_reason(
    tenant: Tenant, worker: Services, name: str, kind: AddressKind
) -> None:
    case = CASES[name]
    person = Person(refreshed(tenant) if case.person.get("is_test") else tenant, worker, kind, **case.person)
    person.enter(person.sends.list_id)
    accepted = person.accepted() if case.is_late else None
    case.make(person)
    said = {"dry run": person.in_dry_run()}
    accepted = accepted or person.accepted()
    said |= {"explain": person.explained(accepted), "delivery": person.delivered(accepted)}
    if person.contact_id is None:
        person.enter(tenant.add_list(fields=FULL_FIELDS))
    said["automation"] = person.passed()
    assert said == {**dict.fromkeys(said, case.reason), **case.apart}
