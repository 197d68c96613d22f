"""What stops working once something is deleted, ended or let go, by name: the sentences of its question
(docs/console.md#questions).

Each is read by a statement or two of the account, which an index answers or which reads so many rows at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session

from app.automations.definition import Send
from app.automations.parse import parse_stored
from app.automations.run_states import IS_HELD
from app.clock import timestamp
from app.console.automations import runs_of_contact
from app.contacts.counts import number_of_contacts
from app.db.models import (
    Account,
    Automation,
    AutomationRun,
    AutomationVersion,
    Message,
    Recipient,
    Transport,
    TransportAccount,
    Webhook,
    WebhookAttempt,
)
from app.lists.fields import ListSpec
from app.routing.routes import list_routes
from app.runs.pause import PAUSE_REASON

MAX_NAMES = 5
"""Names that a sentence has."""
MAX_AUTOMATIONS = 200
"""The newest automations whose steps are looked at."""
MAX_RUNS = 1000
"""Held runs that are counted; more are at least so many."""


def _named(names: Sequence[str]) -> str:
    """The names as a part of a sentence."""
    first = ", ".join(f"“{name}”" for name in names[:MAX_NAMES])
    return f"{first} and others" if len(names) > MAX_NAMES else first


def _sentence(words: str, names: Sequence[str]) -> Iterator[str]:
    """The words with the names behind them; nothing without names."""
    if names:
        yield f"{words}: {_named(names)}."


def loss_of_list(session: Session, contact_list: ListSpec) -> Sequence[str]:
    """How many contacts the list has, and which automations listen to it."""
    listening = Automation.account_id == contact_list.account_id, Automation.list_id == contact_list.id
    names = select(Automation.name).where(*listening, Automation.state != "deleted").order_by(Automation.id.desc())
    number = number_of_contacts(session, contact_list.id)
    return [
        f"It has {number:,} {'contact' if number == 1 else 'contacts'}.",
        *_sentence("Its automations", session.scalars(names.limit(MAX_NAMES + 1)).all()),
    ]


def loss_of_message(session: Session, message: Message) -> Sequence[str]:
    """When the stored message was last sent, and which automations send it."""
    sent = select(Recipient.creation_time).where(
        Recipient.account_id == message.account_id, Recipient.message_id == message.id
    )
    last = session.scalar(sent.order_by(Recipient.creation_time.desc()).limit(1))
    newest_version = and_(
        AutomationVersion.automation_id == Automation.id, AutomationVersion.number == Automation.version
    )
    automations = (
        select(Automation.name, AutomationVersion.definition)
        .join(AutomationVersion, newest_version)
        .where(Automation.account_id == message.account_id, Automation.state != "deleted")
        .order_by(Automation.creation_time.desc(), Automation.id.desc())
    )
    rows = session.execute(automations.limit(MAX_AUTOMATIONS))
    return [
        "No message was sent with it." if last is None else f"It was last sent at {timestamp(last)}.",
        *_sentence("These automations send it", [row.name for row in rows if _sends(row.definition, message.id)]),
    ]


def _sends(definition: object, message_id: int) -> bool:
    steps = parse_stored(definition).by_name.values()
    return any(isinstance(step, Send) and step.message_id == message_id for step in steps)


def loss_of_contact(session: Session, contact_list: ListSpec, contact_id: int) -> Sequence[str]:
    """Which automations the contact is in."""
    runs = runs_of_contact(session, contact_list.account_id, contact_list.id, contact_id)
    return [*_sentence("Its runs of these automations end", list(dict.fromkeys(run.automation for run in runs)))]


def loss_of_webhook(session: Session, webhook: Webhook) -> Sequence[str]:
    """When the webhook was last called, and what it answered."""
    attempts = select(WebhookAttempt.time, WebhookAttempt.outcome).where(
        WebhookAttempt.account_id == webhook.account_id, WebhookAttempt.webhook_id == webhook.id
    )
    last = session.execute(attempts.order_by(WebhookAttempt.id.desc()).limit(1)).first()
    if last is None:
        return ["No delivery to it is in the log."]
    return [f"The last delivery to it was at {timestamp(last.time)}: {last.outcome}."]


def loss_of_transport(session: Session, transport: Transport) -> Sequence[str]:
    """Which routes lead over the transport, and whose sends may name it."""
    names = (
        select(Account.name)
        .join(TransportAccount, TransportAccount.account_id == Account.id)
        .where(TransportAccount.transport_id == transport.id)
        .order_by(Account.name)
    )
    accounts = session.scalars(names.limit(MAX_NAMES + 1)).all()
    routes = [route.name for route in list_routes(session) if transport.name in route.transports]
    return [
        *_sentence("These routes use it", routes),
        *(["Sends of every account may name it."] if transport.any_account else []),
        *_sentence("Sends of these accounts may name it", accounts),
    ]


def held_runs(session: Session, automation: Automation) -> int:
    """How many runs the pause of the automation holds, counted up to `MAX_RUNS`."""
    held = AutomationRun.account_id == automation.account_id, AutomationRun.automation_id == automation.id, IS_HELD
    some = select(AutomationRun.id).where(*held, AutomationRun.reason == PAUSE_REASON).limit(MAX_RUNS)
    return session.scalar(select(func.count()).select_from(some.subquery())) or 0
