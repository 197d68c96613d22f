"""What makes a message wait, or would: one table of the reasons, with what to do about each
(docs/waiting.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from app.addresses import AccountAddress, AddressKind, domain_of
from app.clock import now, timestamp
from app.contacts.row import ContactRow
from app.db.models import Account, Domain, DomainBackoff, List, QueueEntry, Recipient, Send, SmsSender, Transport
from app.recipients.conditions import IS_SENDING
from app.recipients.states import WaitReason
from app.routing.table import DEFAULT_TRANSPORT, RoutedMessage, RoutingTable, load_table
from app.sends.outcomes.domain_deferrals import FAILURE_THRESHOLD
from app.sends.outcomes.relay_refusals import shown_refusals
from app.sends.pauses.read import ShownPause, pauses_concerning

# One thing that an explanation says. Pure.

Command = tuple[str, ...]
"""The words behind `flask --app wsgi` or `tms`."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact in words, and the commands that help, in their order. `prevents` is whether a message to the address
    would not be sent."""

    text: str
    commands: Sequence[Command] = ()
    prevents: bool = False


def at(moment: datetime | None) -> str:
    """The moment as the API writes it."""
    return "an unknown time" if moment is None else timestamp(moment)


REFUSED_UNTIL_MENDED = "new sends are refused, and waiting messages are tried again until the retry period ends"
ADDRESS_PLACEHOLDER = "ADDRESS"
"""Stands in a command for an address of the reader's own."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a message goes: the address, if it is known, the contact and the list, and the send, if there is one yet.
    `in_account` are the words by which commands name the account, and `turn` is when a message is due that was deferred
    without an attempt."""

    account: Account
    kind: AddressKind
    address: AccountAddress | None
    in_account: Command
    list_id: int | None = None
    contact_id: int | None = None
    contact: ContactRow | None = None
    """The contact as it is now; None also if it is no longer in the list."""
    send: Send | None = None
    turn: datetime | None = None

    @property
    def domain(self) -> str | None:
        """The domain of the address of a mail; None for a text."""
        return domain_of(self.address.key) if self.address is not None and self.kind == "email" else None


def waits(session: Session, route: Route) -> Iterator[Finding]:
    """What keeps the message, or a further one, from leaving now; the account's own matters first."""
    findings: list[Finding] = []
    for reason, find in WAITS.items():
        if reason is not WaitReason.RENDER_QUOTA or not findings:
            findings += find(session, route)
    return iter(findings)


def _owner(_session: Session, route: Route) -> Iterator[Finding]:
    if not route.account.owner_confirmed:
        unconfirmed = "The account owner has not confirmed the owner's email address (account_owner_unverified)"
        text = f"{unconfirmed}: {REFUSED_UNTIL_MENDED}."
        yield Finding(text, [("accounts", "update", route.account.name, "--owner-confirmed")], prevents=True)


def paused_words(pause: ShownPause, *, in_full: bool = True) -> str:
    """What is paused, and in full why and by whom, which is not for accounts to know where it is the operator's
    matter."""
    since = pause.since if in_full and not pause.is_everywhere else f"since {at(pause.creation_time)}"
    return f"{pause.subject[0].upper()}{pause.subject[1:]} has been paused {since}: messages wait until it is resumed."


def _paused(session: Session, route: Route) -> Iterator[Finding]:
    for pause in pauses_concerning(session, route.account, list_id=route.list_id, domain=route.domain):
        yield Finding(paused_words(pause), [pause.resuming])


def _refused(session: Session, route: Route) -> Iterator[Finding]:
    """Relays that refuse everything of the account."""
    if route.kind != "email":
        return
    for refusal in shown_refusals(session, route.account.id):
        if refusal.ended_time is None:
            commands = [refusal.command("list"), refusal.command("retry")] if refusal.bounced else []
            yield Finding(refusal.sentence, [*commands, *transport_trial(refusal.transport, route.send)])


def transport_trial(transport: str, send: Send | None) -> list[Command]:
    """The command that tells what a transport says now."""
    return (
        []
        if send is None
        else [("transports", "test", transport, "--to", ADDRESS_PLACEHOLDER, "--from", send.from_address)]
    )


def _missing_domains(session: Session, route: Route) -> Iterator[Finding]:
    for name, domain in _domains(session, route).items():
        if domain is None:
            text = (
                f"The account no longer has the sending domain {name}: {REFUSED_UNTIL_MENDED}.\n"
                "Add the domain, publish the records that the first command shows, and verify them:"
            )
            commands = [("domains", act, name, *route.in_account) for act in ("add", "verify")]
            yield Finding(text, commands, prevents=True)


def _unverified_domains(session: Session, route: Route) -> Iterator[Finding]:
    for name, domain in _domains(session, route).items():
        if domain is not None and domain.verified_time is None:
            text = f"The sending domain {name} is not verified: {REFUSED_UNTIL_MENDED}."
            yield Finding(text, [("domains", "verify", name, *route.in_account)], prevents=True)


def _domains(session: Session, route: Route) -> Mapping[str, Domain | None]:
    """The domains of the sender and of the blind copies, by name."""
    if route.send is None or route.kind != "email":
        return {}
    needed = {domain_of(address): None for address in (route.send.from_address, route.send.bcc_address) if address}
    account_domains = Domain.account_id == route.account.id, Domain.name.in_(needed)
    return {**needed, **{domain.name: domain for domain in session.scalars(select(Domain).where(*account_domains))}}


def _sender(session: Session, route: Route) -> Iterator[Finding]:
    """A sender of text messages that was withdrawn, or assigned to another list."""
    if route.send is None or route.kind == "email":
        return
    address, sender = route.send.from_address, _sender_of(session, route)
    if sender is None:
        kind = "virtual_number" if address.isdecimal() else "alphanumeric"
        replies = " (as `number` if nobody can reply to it)" if address.isdecimal() else ""
        text = f"{address} is no longer an approved sender of the account: {REFUSED_UNTIL_MENDED}. "
        text += f"Approve it again{replies}:"
        command = ("senders", "create", address, "--kind", kind, *route.in_account)
        yield Finding(text, [command], prevents=True)
    elif sender.list_id not in (None, route.send.list_id):
        name = session.scalar(select(List.name).where(List.id == sender.list_id))
        text = (
            f"The sender {address} sends only to the list {name}: {REFUSED_UNTIL_MENDED}. To let it send to any list:"
        )
        yield Finding(text, [("senders", "update", address, "--list", "", *route.in_account)], prevents=True)


def _sender_of(session: Session, route: Route) -> SmsSender | None:
    address = "" if route.send is None else route.send.from_address
    sender_filter = SmsSender.account_id == route.account.id, SmsSender.address == address
    return session.scalars(select(SmsSender).where(*sender_filter)).first()


def _transports(session: Session, route: Route) -> tuple[RoutingTable, tuple[str, ...]]:
    """The routing table, and the transports of the message's route; none of what is captured."""
    send, table = route.send, RoutingTable()
    if send is None or route.account.test_of is not None:
        return table, ()
    table = load_table(session)
    message = RoutedMessage(send.type, route.account.id, send.from_address, send.priority, send.transport)
    return table, table.names(message, route.address.key if route.address else "")


def _no_transport(session: Session, route: Route) -> Iterator[Finding]:
    table, names = _transports(session, route)
    if route.send is None or any(table.is_usable(name, route.send.type) for name in names):
        return
    stored = {
        transport.name: transport for transport in session.scalars(select(Transport).where(Transport.name.in_(names)))
    }
    for name in names:
        transport = stored.get(name)
        if transport is None or transport.type != route.send.type:
            text = f"The message waits for the transport {name}, which no longer exists for messages of this type."
            command: Command = ("transports", "create", name, "--type", route.send.type, "--url", "URL")
            yield Finding(text, [] if transport else [command], prevents=True)
        else:
            text = f"The message waits for the transport {name}, which is disabled."
            yield Finding(text, [("transports", "update", name, "--enabled")], prevents=True)


def _no_room(session: Session, route: Route) -> Iterator[Finding]:
    if route.turn is None or route.send is None:
        return
    table, names = _transports(session, route)
    for name in names:
        if name != DEFAULT_TRANSPORT and table.is_usable(name, route.send.type):
            rate = table.transports[name].messages_per_second
            limit = "a limited number of messages at once" if rate is None else f"at most {rate:g} messages per second"
            yield Finding(f"The transport {name} takes {limit}. This message is due at {at(route.turn)}.")


def _rate(session: Session, route: Route) -> Iterator[Finding]:
    if route.turn is None or route.kind == "email":
        return
    sender = _sender_of(session, route)
    if sender is not None and sender.messages_per_second is not None:
        limit = f"at most {sender.messages_per_second:g} messages per second"
        yield Finding(f"The sender {sender.address} sends {limit}. This message is due at {at(route.turn)}.")


def _backed_off(session: Session, route: Route) -> Iterator[Finding]:
    if route.send is None or route.domain is None:
        return
    sender, domain = domain_of(route.send.from_address), route.domain
    routed = DomainBackoff.account_id == route.account.id, DomainBackoff.sender_domain == sender
    backoffs = select(DomainBackoff).where(*routed, DomainBackoff.domain == domain)
    backoff = session.scalars(backoffs.where(DomainBackoff.failures >= FAILURE_THRESHOLD)).first()
    if backoff is not None and backoff.until_time > now():
        yield Finding(
            f"All mail from {sender} to {domain} waits until {at(backoff.until_time)}: its mail server has deferred "
            f"{backoff.failures} messages without accepting one. This domain back-off ends by itself."
        )


def _quota(session: Session, route: Route) -> Iterator[Finding]:
    """Other messages of the send that are being rendered. Nothing is stored about this wait, so it is named only where
    nothing else explains the wait."""
    if route.turn is None or route.send is None:
        return
    others = select(QueueEntry.recipient_id).join(Recipient, Recipient.id == QueueEntry.recipient_id)
    others_of_send = others.where(IS_SENDING, Recipient.send_id == route.send.id)
    if session.scalar(select(exists(others_of_send))):
        yield Finding(
            "Other messages of its send are being rendered. They may use up the limit of the send (MAX_SEND_BYTES), so "
            "this message waits for their results."
        )


FindWaits = Callable[[Session, Route], Iterable[Finding]]
WAITS: Mapping[WaitReason, FindWaits] = {
    WaitReason.OWNER_UNCONFIRMED: _owner,
    WaitReason.PAUSE: _paused,
    WaitReason.RELAY: _refused,
    WaitReason.DOMAIN_MISSING: _missing_domains,
    WaitReason.DOMAIN_UNVERIFIED: _unverified_domains,
    WaitReason.SENDER_MISSING: _sender,
    WaitReason.NO_TRANSPORT: _no_transport,
    WaitReason.DOMAIN_BACKOFF: _backed_off,
    WaitReason.RATE_LIMIT: _rate,
    WaitReason.TRANSPORT: _no_room,
    WaitReason.RENDER_QUOTA: _quota,
}
"""Each reason of `app.recipients.states.POSTPONEMENTS` -> what says that it applies, and what to do."""
