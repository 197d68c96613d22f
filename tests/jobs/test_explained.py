"""`sends explain` names what works: for every reason for which a message waits or fails, the commands that it names are
run, and the message leaves; or it says honestly that a new send is needed
(docs/troubleshoot.md#where-is-my-message)."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update

from app.clock import now, this_second
from app.db.models import (
    Account,
    Contact,
    Domain,
    DomainBackoff,
    QueueEntry,
    RecipientStep,
    RelayRefusal,
    Send,
    SmsSender,
    table_of,
)
from app.recipients.states import UNSETTLED_STATES, FailReason, RecipientState, WaitReason
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import close_sender_worker
from app.sends.explain.recipient import REASONS
from app.sends.explain.waits import WAITS
from app.sends.outcomes.requeue import RefusalReason
from app.services import Services
from app.settings import Settings
from tests.cli.conftest import Cli
from tests.jobs.conftest import changed
from tests.support.apps import app_with
from tests.support.nameserver import NameServer
from tests.support.routing import Routing, routing_of
from tests.support.rows import Rows
from tests.support.sends import AcceptedSend, SendsApi
from tests.support.servers import free_port
from tests.support.tenants import Tenant, new_email, new_mobile
from tests.unit.transports.mailserver import MailServer

PREFIX = "flask --app wsgi "
GONE = (RecipientState.SENT, RecipientState.DELIVERED)
OTHER_KEY = "another secret of the tests, long enough"
LAST_TRIES = ("holds", "drop")
"""The first words of a command that ends a message instead of sending it."""


@dataclass
class Walk:
    """An account, a sender with a relay of its own, and what is said of a message."""

    settings: Settings
    sends: SendsApi
    worker: Services
    mail_server: MailServer
    routing: Routing
    former: list[Services] = field(default_factory=list)

    @property
    def tenant(self) -> Tenant:
        return self.sends.tenant

    @property
    def rows(self) -> Rows:
        return Rows(self.worker, self.tenant.id)

    @property
    def cli(self) -> Cli:
        """Commands that name the account where it is needed."""
        return Cli(self.tenant.app, self.tenant.name)

    def mail(self, **changes: Any) -> AcceptedSend:
        return self.sends.send(self.sends.email(**changes))

    def text(self, **changes: Any) -> AcceptedSend:
        return self.sends.send(self.sends.sms(**changes))

    def drain(self, **settings: Any) -> None:
        """Sends what is due; with settings, by another worker that has them."""
        worker = self.worker
        if settings:
            worker = changed(self.worker, **settings)
            self.former.append(worker)
        drain(worker)

    def change(self, model: Any, **values: Any) -> None:
        """Sets columns of the account's rows."""
        columns = table_of(model).c
        account_id = columns.id if model is Account else columns.account_id
        with self.worker.database.write() as transaction:
            transaction.execute(update(table_of(model)).where(account_id == self.tenant.id).values(**values))

    def contact(self, **values: Any) -> int:
        """A contact of the list with an email address and a mobile number."""
        given = {"email": new_email(), "mobile": new_mobile(), **values}
        return int(self.tenant.new_contact(self.sends.list_id, **given)["id"])

    def fail(self, accepted: AcceptedSend, state: str, reason: str, step: str) -> AcceptedSend:
        """Ends a message as a remote server would have it."""
        recipient = accepted.recipient
        self.rows.change([recipient.id], state=state, reason=reason, attempts=1)
        self.rows.add(RecipientStep, recipient_id=recipient.id, time=now(), step=step, detail=reason)
        return accepted

    def explained(self, accepted: AcceptedSend) -> Any:
        return Cli(self.tenant.app).json("sends", "explain", accepted.recipients[-1].uuid)

    def run(self, written: str) -> int:
        """Runs a command as it is written, with an address of the reader's own; returns its exit code."""
        words = shlex.split(written.removeprefix(PREFIX))
        address = new_mobile() if words[-1].isdecimal() else new_email()
        words = [word.replace("ADDRESS", address) for word in words]
        if words[:2] == ["domains", "verify"]:
            return self._verify(words)
        return Cli(self.tenant.app).run(*words, input="y\n").exit_code

    def _verify(self, words: list[str]) -> int:
        """Runs `domains verify` with the records that the domain needs published."""
        with NameServer() as names:
            changes = {"dns_resolver": names.address, "spf_include": "spf.service.example"}
            with app_with(self.settings, **changes) as app:
                domain = Cli(app).json("domains", "show", *words[2:])
                names.texts.update({record["name"]: [record["value"]] for record in domain["records"]})
                return Cli(app).run(*words).exit_code


def texts(explained: Any) -> str:
    return "\n".join(finding["text"] for finding in explained["findings"])


def commands(explained: Any) -> list[str]:
    """The commands that send the message, without those that end it."""
    all_commands = [command for finding in explained["findings"] for command in finding["commands"]]
    return [command for command in all_commands if not command.removeprefix(PREFIX).startswith(" ".join(LAST_TRIES))]


@pytest.fixture
def walk(settings: Settings, tenant: Tenant, tmp_path: Path) -> Iterator[Walk]:
    with tenant.services.database.write() as transaction:
        for model in (QueueEntry, DomainBackoff, RelayRefusal):
            transaction.execute(delete(model))
    with MailServer() as mail_server, routing_of(tenant.services, tenant.id) as routing:
        folder = tmp_path / "data"
        transports = {"email_transport_url": mail_server.url(), "sms_transport_url": f"file://{folder / 'sms'}"}
        worker = changed(tenant.services, data_dir=folder, retry_delay=3600.0, **transports)
        made = Walk(settings, SendsApi(tenant), worker, mail_server, routing)
        yield made
        for services in (*made.former, worker):
            close_sender_worker(services)


Make = Callable[[Walk], AcceptedSend]


@dataclass(frozen=True)
class Case:
    """How a message comes into the state, and what is said of it. `ends` is whether it leaves after the commands, or
    whether only a new send helps. `repair` is what the world does meanwhile that no command can."""

    make: Make
    says: str
    leaves: bool = True
    named: int = 0
    """The number of commands, at least."""
    repair: Callable[[Walk], None] = lambda _: None
    trial: bool = False
    """Whether the commands try a transport, which fails before it is repaired."""


def sent_by(make: Make) -> Make:
    """The message, once a sender has had it."""

    def made(walk: Walk) -> AcceptedSend:
        accepted = make(walk)
        walk.drain()
        return accepted

    return made


def after(change: Callable[[Walk, AcceptedSend], object], kind: str = "mail", **content: Any) -> Make:
    """A message that a sender finds changed."""

    def made(walk: Walk) -> AcceptedSend:
        accepted: AcceptedSend = getattr(walk, kind)(**content)
        change(walk, accepted)
        walk.drain()
        return accepted

    return made


def to_contact(change: Callable[[Walk, int], object], kind: str = "mail", **content: Any) -> Make:
    def made(walk: Walk) -> AcceptedSend:
        contact_id = walk.contact()
        accepted: AcceptedSend = getattr(walk, kind)(recipients=[{"contact_id": contact_id}], **content)
        change(walk, contact_id)
        walk.drain()
        return accepted

    return made


def delete_contact(walk: Walk, contact_id: int) -> None:
    walk.tenant.api.delete(f"/v1/lists/{walk.sends.list_id}/contacts/{contact_id}")


def suppress(act: str, *options: str) -> Callable[[Walk, AcceptedSend], None]:
    def change(walk: Walk, accepted: AcceptedSend) -> None:
        walk.cli.text("suppressions", act, accepted.recipient.email, *options)

    return change


def in_state(state: str, **values: Any) -> Make:
    """A message whose entry is in that state, for five minutes if it has no other times."""

    def made(walk: Walk) -> AcceptedSend:
        accepted, early = walk.mail(), now() - timedelta(minutes=5)
        walk.rows.change([accepted.recipient.id], state=state, due_time=early, ready_time=early, **values)
        return accepted

    return made


def dead_sender(walk: Walk) -> AcceptedSend:
    return in_state("sending", worker="dead", attempts=1, lease_time=now() - timedelta(minutes=3))(walk)


def unreadable(walk: Walk) -> AcceptedSend:
    accepted = walk.mail(secret_values=["code"], recipients=[{"email": new_email(), "code": "1234"}])
    walk.drain(secret_key=OTHER_KEY)
    return accepted


def reset_that_bounced(walk: Walk) -> AcceptedSend:
    walk.mail_server.reply(".", "554 5.7.1 not now")
    accepted = walk.mail(secret_values=["code"], recipients=[{"email": new_email(), "code": "1234"}])
    walk.drain()
    return accepted


def dropped(walk: Walk) -> AcceptedSend:
    accepted = in_state("held", held_state="queued")(walk)
    uuid = accepted.recipient.uuid
    assert walk.run(f"{PREFIX}holds drop messages --uuid {uuid} --as failed") == 0
    return accepted


def cancelled(walk: Walk) -> AcceptedSend:
    accepted = walk.mail()
    walk.cli.json("sends", "cancel", accepted.recipient.uuid)
    return accepted


def forgotten(walk: Walk) -> AcceptedSend:
    accepted = walk.mail()
    walk.cli.text("contacts", "forget", accepted.recipient.email, "--yes", "--no-compact")
    return accepted


def purged(walk: Walk) -> AcceptedSend:
    accepted = walk.fail(walk.mail(), "bounced", "554 5.7.1 no", "bounced")
    walk.change(Send, content_purged_time=this_second(), subject=None, body_text=None)
    return accepted


def add_backoff(walk: Walk, _: AcceptedSend) -> None:
    until = now() + timedelta(hours=1)
    row = {"sender_domain": walk.tenant.domain.lower(), "domain": "example.com", "failures": 3, "until_time": until}
    walk.tenant.add(DomainBackoff, **row)


def end_backoff(walk: Walk) -> None:
    walk.change(DomainBackoff, until_time=now() - timedelta(seconds=1))


def refuse_everything(walk: Walk, _: AcceptedSend) -> None:
    moment = now()
    times = dict.fromkeys(("first_time", "last_time", "noticed_time"), moment)
    row = {"transport": "default", "reply": "554 5.7.1 denied", "domains": {}, "bounced": 0, "failures": 1}
    walk.tenant.add(
        RelayRefusal, **row, **times, until_time=moment + timedelta(hours=1), probe_id=None, ended_time=None
    )


def relay_accepts(walk: Walk) -> None:
    walk.change(RelayRefusal, until_time=now() - timedelta(seconds=1))


def beyond_the_rate(walk: Walk) -> AcceptedSend:
    walk.cli.text("senders", "update", walk.sends.number, "--rate", "0.01")
    accepted = walk.text(recipients=[{"mobile": new_mobile()}, {"mobile": new_mobile()}])
    walk.drain()
    return accepted


def without_rate(walk: Walk) -> None:
    walk.cli.text("senders", "update", walk.sends.number, "--rate", "0")


def beyond_the_room(walk: Walk) -> AcceptedSend:
    name = walk.routing.transport(walk.mail_server.url(), messages_per_second=0.01)
    walk.routing.route(name)
    accepted = walk.mail(recipients=[{"email": new_email()}, {"email": new_email()}])
    walk.drain()
    return accepted


def with_room(walk: Walk) -> None:
    for name in walk.routing.names():
        walk.routing.change(name, messages_per_second=None)


def beside_others(walk: Walk) -> AcceptedSend:
    accepted = walk.mail(recipients=[{"email": new_email()}, {"email": new_email()}])
    first, last = accepted.recipients
    lease = now() + timedelta(minutes=1)
    walk.rows.change([first.id], state="sending", worker="other", attempts=1, lease_time=lease)
    walk.rows.change([last.id], due_time=now() + timedelta(minutes=1))
    return accepted


def over(url: Callable[[Walk], str], **attributes: Any) -> Make:
    """A message over a transport of its own."""

    def made(walk: Walk) -> AcceptedSend:
        walk.routing.route(walk.routing.transport(url(walk), **attributes))
        accepted = walk.mail()
        walk.drain()
        return accepted

    return made


def reach(walk: Walk) -> None:
    for name in walk.routing.names():
        walk.routing.change(name, url=walk.mail_server.url())


def unverified(walk: Walk, _: AcceptedSend) -> None:
    walk.cli.text("domains", "add", walk.tenant.domain)  # which makes its keys
    walk.change(Domain, verified_time=None)


def foreign_key(walk: Walk) -> AcceptedSend:
    walk.cli.text("domains", "add", walk.tenant.domain)
    accepted = walk.mail()
    walk.drain(secret_key=OTHER_KEY)
    return accepted


def put_off_by_reply(walk: Walk) -> AcceptedSend:
    walk.mail_server.reply(".", "451 4.3.2 try again later")
    return sent_by(lambda walk: walk.mail())(walk)


NONE = "make a new send"
CASES: dict[str, Case] = {
    # Reasons of a failure.
    FailReason.INVALID_CONTACT_ID: Case(
        sent_by(lambda walk: walk.mail(recipients=[{"contact_id": 1 << 40}])), NONE, leaves=False
    ),
    FailReason.CONTACT_DELETED: Case(to_contact(delete_contact), NONE, leaves=False),
    FailReason.CONTACT_INACTIVE: Case(
        to_contact(lambda walk, _: walk.change(Contact, is_active=False)), "is not active", named=2
    ),
    FailReason.ADDRESS_MISSING: Case(
        to_contact(lambda walk, _: walk.change(Contact, email=None, email_key=None)), "has no address", named=2
    ),
    FailReason.BLOCKED: Case(after(suppress("block")), "has been blocked since", named=2),
    FailReason.UNSUBSCRIBED: Case(after(suppress("unsubscribe")), "has been unsubscribed account-wide", named=2),
    FailReason.TOO_LARGE: Case(
        sent_by(
            lambda walk: walk.mail(
                body_text="%%long%%" * 300, recipients=[{"email": new_email(), "long": "much " * 2000}]
            )
        ),
        "A retry would fail again: body_text has more than",
        leaves=False,
    ),
    FailReason.CONTENT_MISSING: Case(
        sent_by(lambda walk: walk.text(body_text="%%word%%", unsubscribe_type="none")),
        "A retry would fail again: the text is empty",
        leaves=False,
    ),
    FailReason.UNREADABLE_VALUES: Case(unreadable, "its secret values were deleted", leaves=False),
    FailReason.REJECTED: Case(
        lambda walk: walk.fail(walk.text(), "failed", "rejected", "failed"), "the gateway refused it", named=1
    ),
    FailReason.EXPIRED: Case(
        lambda walk: walk.fail(walk.text(), "failed", "expired", "failed"), "until the end of the retry period", named=1
    ),
    FailReason.CANCELLED: Case(cancelled, "it was cancelled before it was sent", leaves=False),
    FailReason.DROPPED: Case(dropped, "an operator dropped it", named=1),
    FailReason.FORGOTTEN: Case(forgotten, "the address and all texts were removed", leaves=False),
    # Why a retry is refused, besides.
    RefusalReason.NO_CONTACT: Case(to_contact(delete_contact), NONE, leaves=False),
    RefusalReason.CONTENT_PURGED: Case(purged, "its content was purged", leaves=False),
    RefusalReason.SECRET_VALUES_GONE: Case(reset_that_bounced, NONE, leaves=False),
    # Why a message waits.
    WaitReason.OWNER_UNCONFIRMED: Case(
        after(lambda walk, _: walk.change(Account, owner_confirmed=False)), "has not confirmed the address", named=1
    ),
    WaitReason.DOMAIN_MISSING: Case(
        after(lambda walk, _: walk.cli.text("domains", "delete", walk.tenant.domain)),
        "no longer has the sending domain",
        named=2,
    ),
    WaitReason.DOMAIN_UNVERIFIED: Case(after(unverified), "is not verified", named=1),
    WaitReason.SENDER_MISSING: Case(
        after(lambda walk, _: walk.cli.text("senders", "delete", walk.sends.number), "text"),
        "is no longer an approved sender of the account",
        named=1,
    ),
    "a sender of another list": Case(
        after(lambda walk, _: walk.change(SmsSender, list_id=walk.tenant.add_list("Others")), "text"),
        "sends only to the list Others",
        named=1,
    ),
    WaitReason.PAUSE: Case(after(lambda walk, _: walk.cli.text("sends", "pause")), "has been paused since", named=1),
    WaitReason.RELAY: Case(after(refuse_everything), "has refused all messages of", named=1, repair=relay_accepts),
    WaitReason.DOMAIN_BACKOFF: Case(after(add_backoff), "This domain back-off ends by itself", repair=end_backoff),
    WaitReason.RATE_LIMIT: Case(
        beyond_the_rate, "sends at most 0.01 messages per second. This message is due at", repair=without_rate
    ),
    WaitReason.TRANSPORT: Case(
        beyond_the_room, "takes at most 0.01 messages per second. This message is due at", repair=with_room
    ),
    WaitReason.RENDER_QUOTA: Case(beside_others, "Other messages of its send are being rendered"),
    WaitReason.NO_TRANSPORT: Case(
        over(lambda walk: walk.mail_server.url(), enabled=False), "which is disabled", named=1
    ),
    "unreachable": Case(
        over(lambda _: f"smtp://127.0.0.1:{free_port()}"), "could not hand it over", named=1, repair=reach, trial=True
    ),
    "a reply": Case(put_off_by_reply, "451 4.3.2 try again later\nThe next attempt is due at"),
    "a fault": Case(foreign_key, "This is an error in the service"),
    # States.
    RecipientState.QUEUED: Case(in_state("queued"), "Check that workers are running", named=1),
    RecipientState.SENDING: Case(dead_sender, "has not reported a result", named=1),
    RecipientState.UNCERTAIN: Case(in_state("uncertain", attempts=1), "retry it now", named=1),
    RecipientState.HELD: Case(in_state("held", held_state="queued"), "Release it, or drop it", named=1),
    RecipientState.SCHEDULED: Case(in_state("scheduled"), "It is scheduled for", named=0),
    RecipientState.PAUSED: Case(
        after(lambda walk, _: walk.cli.text("sends", "pause")), "It is paused. It was due", named=1
    ),
}
"""A reason or a state -> how it comes about, and what is said."""


def test_every_reason_and_every_state_has_its_row() -> None:
    """A new one without a row is not explained yet."""
    retry_reasons = {*RefusalReason} - {RefusalReason.STATE, RefusalReason.CHANGED}
    assert {*FailReason, *WaitReason, *UNSETTLED_STATES, *retry_reasons} <= CASES.keys()
    assert REASONS.keys() == {*FailReason}
    assert WAITS.keys() == {*WaitReason}


@pytest.mark.parametrize("reason", CASES)
def test_the_commands_that_are_named_send_the_message_or_a_new_send_is_asked_for(walk: Walk, reason: str) -> None:
    case = CASES[reason]
    accepted = case.make(walk)
    explained = walk.explained(accepted)
    assert case.says in texts(explained)
    named = commands(explained)
    assert len(named) >= case.named
    if not case.leaves:
        assert named == []
        refused = walk.run(f"{PREFIX}sends retry {accepted.recipient.uuid}") == 2
        assert refused != ("A retry would fail again" in texts(explained))
        return
    if case.trial:
        assert [walk.run(command) for command in named] == [1] * len(named)
        case.repair(walk)
    assert [walk.run(command) for command in named] == [0] * len(named)
    if not case.trial:
        case.repair(walk)
    last = accepted.recipients[-1].id
    if accepted.recipients[-1].state == "queued":
        walk.rows.make_due([last])
    walk.drain()
    assert accepted.recipients[-1].state in GONE


def test_a_text_that_is_no_longer_empty_can_be_sent_again(walk: Walk) -> None:
    """The contact must have got the values that the text takes from it."""
    contact_id = walk.contact()
    given = {"recipients": [{"contact_id": contact_id}], "body_text": "%%first_name%%", "unsubscribe_type": "none"}
    accepted = walk.text(**given)
    walk.drain()
    assert commands(walk.explained(accepted)) == []
    list_id = str(walk.sends.list_id)
    walk.cli.text("contacts", "update", str(contact_id), "--list", list_id, "first_name=Ann")
    explained = walk.explained(accepted)
    assert "Nothing blocks it now." in texts(explained)
    (command,) = commands(explained)
    assert walk.run(command) == 0
    walk.drain()
    assert accepted.recipient.state in GONE


def test_a_message_beyond_a_limit_that_was_raised_can_be_sent_again(walk: Walk) -> None:
    accepted = walk.mail(body_text="more than ten bytes")
    walk.drain(max_body_bytes=10)
    (command,) = commands(walk.explained(accepted))
    assert walk.run(command) == 0
    walk.drain()
    assert accepted.recipient.state in GONE


def test_a_message_waits_since_no_earlier_than_it_was_accepted(walk: Walk) -> None:
    """The time is no earlier even where another worker has the probe of a back-off that has ended."""
    accepted = walk.mail()
    add_backoff(walk, accepted)
    end_backoff(walk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.sends.delivery.postponed._claim_probe", lambda *_: False)
        patch.setattr("app.sends.delivery.drain.TIME_SLICE", 0.2)
        walk.drain()
    recipient = accepted.recipient
    assert recipient.due_time >= recipient.creation_time
