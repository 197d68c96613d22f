"""Fixtures for automations: an account whose contacts change through HTTP, a clock that the test moves, and workers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from app.db.due import DueAccounts
from app.db.models import (
    Account,
    Automation,
    AutomationPassedStep,
    AutomationRun,
    AutomationStep,
    Event,
    QueueEntry,
    Recipient,
    Webhook,
)
from app.db.queue import RUN_QUEUE
from app.runs.work import advance_due
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import close_sender_worker
from app.services import Services
from app.tracking.recorder import VISITS
from app.tracking.tokens import OPEN_PURPOSE, recipient_token
from tests.jobs.conftest import changed
from tests.support.automations import add_automation, runs_of
from tests.support.clocks import Calendar, calendar_of
from tests.support.rows import Rows
from tests.support.servers import PATIENCE
from tests.support.statements import StatementCounter
from tests.support.tenants import FULL_FIELDS, Tenant, new_email, new_mobile, unique

READER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Thunderbird/140.0"}
MONDAY = datetime(2026, 3, 2, 8, tzinfo=UTC)
CREATED = "When a Contact is created from the REST API"
UPDATED = "When a Contact is updated from the REST API"
ADVANCED = {"kind": "advanced", "trigger": "REST API Contact Created"}


@dataclass
class Story:
    """An account with a list of contacts, and the workers that advance its runs and send its messages."""

    tenant: Tenant
    worker: Services
    calendar: Calendar
    mail: Path
    list_id: int = 0
    steps: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.list_id = self.tenant.add_list("Customers", FULL_FIELDS)
        self.rows = Rows(self.worker, self.tenant.id)
        # Looks at all runs once: whatever falls due later must be found by its due time.
        self.due = DueAccounts(RUN_QUEUE, full_share=1e-9)

    def automation(self, **document: Any) -> int:
        """Stores an automation of the list; its id."""
        document = {"name": unique("automation"), **document}
        automation_id = add_automation(self.worker, self.tenant.id, self.list_id, document)
        with self.worker.database.read() as session:
            steps = session.execute(select(AutomationStep).where(AutomationStep.automation_id == automation_id))
            self.steps |= {step.name: step.id for step in steps.scalars()}
        return automation_id

    def message(self) -> str:
        """The name of a stored message."""
        name = unique("message")
        self.tenant.add_message(name=name)
        return name

    def contact(self, **attributes: Any) -> int:
        """A contact created through HTTP; its id."""
        attributes = {"email": new_email(), "mobile": new_mobile(), **attributes}
        contact_id: int = self.tenant.new_contact(self.list_id, **attributes)["id"]
        return contact_id

    def change(self, contact_id: int, **attributes: Any) -> None:
        """Changes the contact through HTTP."""
        response = self.tenant.api.patch(f"/v1/lists/{self.list_id}/contacts/{contact_id}", attributes)
        assert response.status_code == 200, response.text

    def advance(self) -> None:
        """Advances what is due, until nothing is."""
        while advance_due(self.worker, self.due):
            pass

    def work(self) -> None:
        """Advances what is due, and sends the messages that were written."""
        self.advance()
        drain(self.worker)

    def runs(self, automation_id: int) -> list[AutomationRun]:
        """The runs of the automation."""
        return runs_of(self.worker, automation_id)

    def states(self, automation_id: int) -> list[tuple[str, str | None]]:
        """State and next step, or the reason of the end, of each run."""
        return [(run.state, run.step or run.reason) for run in self.runs(automation_id)]

    def passed(self, contact_id: int) -> list[tuple[str, str, str | None]]:
        """The steps that the contact's runs have passed, in their order: name, result, detail."""
        passed = AutomationPassedStep
        statement = (
            select(AutomationStep.name, passed.result, passed.detail)
            .join(passed, passed.step_id == AutomationStep.id)
            .join(AutomationRun, AutomationRun.id == passed.run_id)
            .where(AutomationRun.contact_id == contact_id)
            .order_by(passed.id)
        )
        with self.worker.database.read() as session:
            return [(row.name, row.result, row.detail) for row in session.execute(statement)]

    def mails(self) -> list[tuple[str, str]]:
        """Address and subject of each mail that the relay has got, in their order."""
        mail_heads = []
        for path in sorted(self.mail.glob("*.eml"), key=lambda path: path.stat().st_mtime_ns):
            message = message_from_bytes(path.read_bytes(), policy=policy.default)
            mail_heads.append((str(message["To"]), str(message["Subject"])))
        return mail_heads

    def events(self, *names: str) -> list[dict[str, Any]]:
        """The events of these names, oldest first."""
        return [event for event in map(json.loads, self.rows.payloads()) if event["event"] in names]

    def recipients(self, contact_id: int) -> list[Recipient]:
        """What was sent to the contact, or is to be."""
        with self.worker.database.read() as session:
            statement = select(Recipient).where(Recipient.contact_id == contact_id).order_by(Recipient.id)
            return list(session.scalars(statement))

    def opens(self, recipient: Recipient) -> None:
        """A person opens the mail."""
        token = recipient_token(self.worker.settings.secret_key, OPEN_PURPOSE, recipient.id)
        assert self.tenant.api.get(f"/o/{token}.gif", headers=READER).status_code == 200
        self.flush_visits()

    def flush_visits(self) -> None:
        """Waits until visits are written."""
        assert self.tenant.app.extensions[VISITS].flush(PATIENCE)

    def add_webhook(self, url: str) -> int:
        """A webhook of that URL; its id."""
        values = {"creation_time": self.calendar.moment, "due_time": self.calendar.moment}
        return self.rows.add(Webhook, url=url, failures=0, dropped_events=0, **values)

    def events_of(self, name: str) -> list[tuple[int, dict[str, Any]]]:
        """The events of the name with the ids of their webhooks, oldest first."""
        statement = select(Event.webhook_id, Event.payload).where(Event.account_id == self.tenant.id)
        with self.worker.database.read() as session:
            payloads = [
                (row.webhook_id, json.loads(row.payload)) for row in session.execute(statement.order_by(Event.id))
            ]
        return [(webhook_id, event) for webhook_id, event in payloads if event["event"] == name]

    def set_account(self, **columns: Any) -> None:
        """Sets columns of the account."""
        with self.worker.database.write() as transaction:
            transaction.execute(update(Account).where(Account.id == self.tenant.id).values(**columns))


@pytest.fixture
def calendar(monkeypatch: pytest.MonkeyPatch) -> Calendar:
    """The service's clock: a Monday at 8 in the morning, in UTC."""
    return calendar_of(monkeypatch, MONDAY)


@pytest.fixture
def worker(services: Services, tmp_path: Path) -> Iterator[Services]:
    """A worker process that sends into folders."""
    with services.database.write() as transaction:
        for model in (Automation, Recipient, QueueEntry):
            transaction.execute(delete(model))
    folders = {f"{kind}_transport_url": f"file://{tmp_path / kind}" for kind in ("email", "sms")}
    made = changed(services, data_dir=tmp_path / "data", **folders)
    yield made
    close_sender_worker(made)


@pytest.fixture
def count_statements(story: Story) -> Callable[[], StatementCounter]:
    """`with count_statements() as counted:` and then `counted.count`: SQL statements that requests send meanwhile."""
    return lambda: StatementCounter(story.tenant.services.database.engine)


@pytest.fixture
def story(tenant: Tenant, worker: Services, calendar: Calendar, tmp_path: Path) -> Story:
    """The account."""
    return Story(tenant, worker, calendar, tmp_path / "email")
