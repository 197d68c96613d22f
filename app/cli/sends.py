"""`flask sends`: the outcome of each recipient, why it did not arrive, retries, cancelling, and pauses."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.exports import record_export
from app.accounts.find import all_accounts, find_account
from app.addresses import AccountAddress, AddressKind
from app.bulk_actions.kinds import CANCEL, RETRY
from app.bulk_actions.preview import Preview
from app.bulk_actions.query import parse_query
from app.cli import bulk_actions
from app.cli.base import (
    CommandResult,
    Group,
    Row,
    WrongValue,
    account_option,
    accounts_option,
    address_kind,
    combine_options,
    json_option,
    limit_option,
    pairs_of,
    row_with_table,
    rows_of_accounts,
    wake_after,
)
from app.cli.bulk_actions import ask_for_all, print_asked
from app.cli.csv_files import export_options, export_rows, format_to_write
from app.cli.holds import dry_run_option, yes_option
from app.clock import timestamp
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.index_hints import IndexedCondition
from app.db.lookup import find_by_name_or_id
from app.db.models import Account, QueueEntry, Recipient, Send, SendPause
from app.db.models import Group as TransactionalGroup
from app.db.public_ids import public_id
from app.distribution import COMMAND_LINE
from app.http.context import services
from app.ids import UUID
from app.recipients.collection import MatchingRecipients, parts_of
from app.recipients.conditions import CURRENT_ATTEMPTS, CURRENT_STATE, current_entry
from app.recipients.filters import ids_of
from app.recipients.read import find_recipient, latest_steps
from app.recipients.states import RecipientState
from app.sends.cancel import cancel
from app.sends.explain.obstacles import obstacles
from app.sends.explain.recipient import ARRIVED_STATES, Explanation, explain_recipient, messages_to, newest_messages
from app.sends.explain.waits import Finding, Route
from app.sends.outcomes.requeue import requeue
from app.sends.pauses.pause import Subject, find_pause, pause, resume, subject_of
from app.sends.pauses.read import ShownPause, list_pauses
from app.services import Services

group = Group("sends", help="Recipients of sends. UUID is the uuid in the response to the send.")
group.add_command(bulk_actions.group)

# `flask sends explain`: why a message did not arrive, and the commands that help
# (docs/troubleshoot.md#where-is-my-message).


@group.reads("explain", "installation")
@click.argument("uuid_or_address", metavar="UUID|ADDRESS")
@click.option(
    "--limit", type=click.IntRange(1), default=1, show_default=True, help="Number of messages to an address to explain."
)
@accounts_option
def explain(session: Session, uuid_or_address: str, limit: int, account: str | None) -> CommandResult:
    """Explain why a message did not arrive and what to do. For an address, explain its newest messages."""
    if UUID.fullmatch(uuid_or_address):
        message = _message(session, uuid_or_address)
        return CommandResult("\n".join(_lines_of_message(message)), _facts_of_message(message))
    kind = address_kind(uuid_or_address, besides="a uuid nor ")
    chosen = all_accounts(session) if account is None else [find_account(session, account)]
    explanations = [_AddressExplanation(session, owner, kind, uuid_or_address, limit) for owner in chosen]
    lines = (line for explanation in explanations for line in explanation.lines(named=len(chosen) > 1))
    return CommandResult(
        "\n".join(lines),
        {"address": uuid_or_address, "accounts": [explanation.facts() for explanation in explanations]},
    )


class _AddressExplanation:
    """What there is to say about an address in one account."""

    def __init__(self, session: Session, account: Account, kind: AddressKind, text: str, limit: int) -> None:
        self._account, self._address = account, AccountAddress.of(account.id, kind, text)
        named = _account_words(session, account)
        newest = session.scalars(newest_messages(session, self._address).limit(limit)).all()
        settings = services().settings
        self._messages = [explain_recipient(session, recipient, settings, named) for recipient in newest]
        # A message that did not arrive is followed by what stands in its way.
        tells = bool(self._messages) and self._messages[0].state not in ARRIVED_STATES
        self._now = [] if tells else list(obstacles(session, Route(account, kind, self._address, named)))

    def lines(self, *, named: bool) -> Iterator[str]:
        """The explanation as lines for people."""
        if named:
            yield f"account {self._account.name}:"
        if not self._messages:
            yield f"The history has no message to {self._address.key}."
        for message in self._messages:
            yield from _lines_of_message(message)
        if self._now:
            yield "A new message would be affected by this:"
            yield from _lines(self._now)

    def facts(self) -> Row:
        """The explanation for programs."""
        messages = [_facts_of_message(message) for message in self._messages]
        return {"account": self._account.name, "findings": _facts(self._now), "messages": messages}


def _message(session: Session, uuid: str) -> Explanation:
    recipient = find_recipient(session, uuid)
    account = session.get_one(Account, recipient.account_id)
    return explain_recipient(session, recipient, services().settings, _account_words(session, account))


def _account_words(session: Session, account: Account) -> tuple[str, ...]:
    """The words by which commands name the account; none where it is the only one."""
    return ("--account", account.name) if len(all_accounts(session)) > 1 else ()


def _lines_of_message(message: Explanation) -> list[str]:
    recipient = message.recipient
    to = message.address or ("somebody forgotten" if message.is_forgotten else "a contact without an address")
    head = f"{recipient.uuid}: {recipient.type} to {to}, accepted {timestamp(recipient.creation_time)}: {message.state}"
    return [head, *_lines(message.findings)]


def _lines(findings: Iterable[Finding]) -> Iterator[str]:
    for finding in findings:
        yield from (f"  {line}" for line in finding.text.splitlines())
        yield from (f"      {_command_text(command)}" for command in finding.commands)


def _facts_of_message(message: Explanation) -> Row:
    attributes = {name: getattr(message.recipient, name) for name in ("uuid", "type", "reason", "creation_time")}
    return {
        **attributes,
        "address": message.address,
        "state": message.state.value,
        "findings": _facts(message.findings),
    }


def _facts(findings: Sequence[Finding]) -> list[Row]:
    return [
        {"text": finding.text, "commands": [_command_text(command) for command in finding.commands]}
        for finding in findings
    ]


def _command_text(command: Sequence[str]) -> str:
    return f"{COMMAND_LINE} {shlex.join(command)}"


# `flask sends export`: the recipients of an account's sends as a CSV file.

EXPORT_COLUMNS: dict[str, Any] = {
    "uuid": Recipient.uuid,
    "type": Recipient.type,
    "email": Recipient.email,
    "mobile": Recipient.mobile,
    "list_id": public_id(Recipient.list_id),
    "contact_id": Recipient.contact_id,
    "message_id": public_id(Recipient.message_id),
    "group_id": Recipient.group_id,
    "state": CURRENT_STATE,
    "reason": Recipient.reason,
    "attempts": CURRENT_ATTEMPTS,
    "creation_time": Recipient.creation_time,
    "sent_time": Recipient.sent_time,
    "tags": Recipient.tags,
    "metadata": Recipient.custom_metadata,
}
"""Name of a column -> its value; the state and the attempts are those of the queue entry, if there is one."""


@group.command("export")
@export_options
@click.argument("filters", nargs=-1, metavar="[FILTER...]")
@click.option(
    "--state", type=click.Choice([str(state) for state in RecipientState]), help="Only recipients in this state."
)
@click.option("--group", metavar="NAME|ID", help="Only recipients of this group.")
@account_option
@json_option
def export(
    file: str,
    *,
    filters: tuple[str, ...],
    delimiter: str | None,
    encoding: str | None,
    state: str | None,
    group: str | None,
    account: str | None,
    as_json: bool,
) -> None:
    """Write the recipients of an account's sends to a CSV file, all or only the matching ones. Use - for standard
    output."""
    pairs, states = pairs_of(filters), tuple(RecipientState) if state is None else (RecipientState(state),)
    with services().database.read() as session:
        chosen = find_account(session, account)
        if group is not None:
            transactional_group = find_by_name_or_id(session, TransactionalGroup, chosen.id, group, "group")
            pairs.append(("group_id", str(transactional_group.id)))
        matching = MatchingRecipients.of(chosen.id, parse_query(chosen, pairs), states)
    record_export(services().database, "recipient.exported", chosen.id)
    columns = [value.label(name) for name, value in EXPORT_COLUMNS.items()]
    pages = ([dict(row._mapping) for row in part] for part in parts_of(services().reports, matching, columns))
    export_rows(file, format_to_write(delimiter, encoding), tuple(EXPORT_COLUMNS), pages, None, as_json=as_json)


STATES = tuple(state.value for state in RecipientState)
ROW_COLUMNS = (
    "uuid",
    "type",
    "email",
    "mobile",
    "state",
    "reason",
    "group_id",
    "attempts",
    "creation_time",
    "sent_time",
)
SMS_COLUMNS = ("segments", "gateway_id")
STEP_COLUMNS = ("time", "step", "transport", "country", "detail", "note")


def _row(recipient: Recipient, entry: QueueEntry | None) -> Row:
    """The recipient with the state and the attempts of its queue entry, if it has one."""
    current = {"state": entry.state, "attempts": entry.attempts} if entry else {}
    return {name: current.get(name, getattr(recipient, name)) for name in ROW_COLUMNS}


def _rows(session: Session, recipients: Sequence[Recipient]) -> list[Row]:
    """The recipients, each as `_row` shows it. Two statements, because the planner of a join would not know how few
    recipients there are."""
    ids = [recipient.id for recipient in recipients]
    entries = session.scalars(select(QueueEntry).where(in_json(QueueEntry.recipient_id, ids)))
    by_id = {entry.recipient_id: entry for entry in entries}
    return [_row(recipient, by_id.get(recipient.id)) for recipient in recipients]


@group.reads("list", "installation")
@click.argument("filters", nargs=-1, metavar="[FILTER...]")
@click.option("--to", metavar="ADDRESS", help="Only recipients with this email address or mobile number.")
@click.option("--state", type=click.Choice(STATES), help="Only recipients in this state.")
@click.option("--group", "group_", metavar="NAME|ID", help="Only recipients of this group.")
@limit_option
@accounts_option
def list_(
    session: Session,
    *,
    filters: tuple[str, ...],
    to: str | None,
    state: str | None,
    group_: str | None,
    limit: int,
    account: str | None,
) -> list[Row]:
    """Show the recipients of sends of one account or of all accounts, newest first. Filters, such as group_id=5, select
    recipients."""
    kind = None if to is None else address_kind(to)
    pairs, states = pairs_of(filters), tuple(RecipientState) if state is None else (RecipientState(state),)
    if group_:
        chosen = find_account(session, account)
        account = chosen.name
        transactional_group = find_by_name_or_id(session, TransactionalGroup, chosen.id, group_, "group")
        pairs.append(("group_id", str(transactional_group.id)))

    def rows_of_account(owner: Account) -> list[Row]:
        addressed: list[IndexedCondition] = []
        if to is not None and kind is not None:
            to_address = messages_to(session, AccountAddress.of(owner.id, kind, to))
            addressed.append(IndexedCondition(to_address, [ids_of(owner.id).where(to_address)], leads=True))
        matching = MatchingRecipients.of(owner.id, parse_query(owner, pairs), states)
        return _rows(session, [row[0] for row in matching.newest_ones(session, (Recipient,), limit, *addressed)])

    return rows_of_accounts(session, account, rows_of_account)


@group.reads("show", "installation", row_with_table("timeline", "timeline:"))
@click.argument("uuid")
@click.option(
    "--limit", type=click.IntRange(1), default=1000, show_default=True, help="Number of latest steps to show."
)
def show(session: Session, uuid: str, limit: int) -> Row:
    """Show a recipient with its timeline and the notes for the operator."""
    recipient = find_recipient(session, uuid)
    return {
        **_row(recipient, current_entry(session, recipient)),
        "content_purged_time": session.get_one(Send, recipient.send_id).content_purged_time,
        **{name: getattr(recipient, name) for name in (SMS_COLUMNS if recipient.type == "sms" else ())},
        "tags": recipient.tags,
        "metadata": recipient.custom_metadata,
        "timeline": [
            {name: getattr(step, name) for name in STEP_COLUMNS} for step in latest_steps(session, recipient, limit)
        ],
    }


@group.runs("retry", "installation", print_asked)
@click.argument("targets", nargs=-1, required=True, metavar="UUID | FILTER...")
@dry_run_option
@yes_option
@account_option
def retry(
    parts: Services, *, targets: tuple[str, ...], dry_run: bool, yes: bool, account: str | None
) -> Row | CommandResult | Preview:
    """Retry a message that bounced, failed or is uncertain, or all messages of an account that match filters, such as
    state=failed group_id=5."""
    if len(targets) > 1 or "=" in targets[0]:
        return ask_for_all(parts, RETRY, targets, account=account, dry_run=dry_run, yes=yes)
    if dry_run:
        raise WrongValue("--dry-run counts what filters match, such as state=failed")
    with parts.database.write() as transaction:
        recipient = requeue(transaction, targets[0])
        wake_after(transaction)
        return _row(recipient, current_entry(transaction, recipient))


@group.runs("cancel", "installation", print_asked)
@click.argument("targets", nargs=-1, required=True, metavar="UUID | FILTER...")
@dry_run_option
@yes_option
@account_option
def cancel_(
    parts: Services, *, targets: tuple[str, ...], dry_run: bool, yes: bool, account: str | None
) -> Row | CommandResult | Preview:
    """Cancel a message that is scheduled, queued or paused, or all messages of an account that match filters, such as
    state=scheduled group_id=5. Messages that are being sent are left out."""
    if len(targets) > 1 or "=" in targets[0]:
        return ask_for_all(parts, CANCEL, targets, account=account, dry_run=dry_run, yes=yes)
    if dry_run:
        raise WrongValue("--dry-run counts what filters match, such as state=scheduled")
    with parts.database.write() as transaction:
        recipient = cancel(transaction, parts.settings, targets[0])
        return _row(recipient, current_entry(transaction, recipient))


# `flask sends pause`, `resume` and `pauses` (docs/waiting.md#pauses).


subject_options = combine_options(
    click.option(
        "--account", metavar="NAME|ID", help="Only messages of this account. Optional if there is only one account."
    ),
    click.option("--list", "list_", metavar="NAME|ID", help="Only messages to this list."),
    click.option("--domain", metavar="DOMAIN", help="Only mail to addresses of this domain."),
    click.option("--everywhere", is_flag=True, help="The domain for all accounts."),
)
"""What is paused: the options of `pause` and `resume`."""


def _subject(
    session: Session, *, account: str | None, list_: str | None, domain: str | None, everywhere: bool
) -> Subject:
    if everywhere and (account is not None or list_ is not None):
        raise WrongValue("--everywhere needs --domain and no other option, because it applies to all accounts")
    chosen = None if everywhere else find_account(session, account)
    return subject_of(session, chosen, list_=list_, domain=domain)


def _pause_row(pause: ShownPause) -> Row:
    return {
        "account": pause.account,
        "kind": pause.kind,
        "of": pause.list_name if pause.kind == "list" else pause.domain,
        "since": pause.creation_time,
        "by": pause.paused_by,
        "reason": pause.reason,
        "resumed": pause.resumed_time,
        "waiting": pause.waiting,
        "more": pause.is_least,
    }


def _subject_row(session: Session, subject: Subject, paused: SendPause) -> Row:
    account = None if subject.account_id is None else session.get_one(Account, subject.account_id).name
    row = {"account": account, "kind": paused.kind, "of": subject.list_name or subject.domain}
    return {**row, "since": paused.creation_time, "by": paused.paused_by, "reason": paused.reason}


@group.writes("pause", "installation")
@subject_options
@click.option("--reason", metavar="TEXT", help="Why; the list of pauses shows it.")
def pause_(transaction: Transaction, *, reason: str | None, **options: Any) -> Row:
    """Pause sending of an account, to a list or to a domain, until `resume`. Sends are still accepted, but their
    messages wait. Messages that are being sent now are not stopped."""
    subject = _subject(transaction, **options)
    return _subject_row(transaction, subject, pause(transaction, subject, reason))


@group.writes("resume", "installation")
@subject_options
def resume_(transaction: Transaction, **options: Any) -> Row:
    """Resume what was paused. Waiting messages are sent in their order."""
    subject = _subject(transaction, **options)
    paused = find_pause(transaction, subject)
    ended = resume(transaction, paused)
    wake_after(transaction)
    return {**_subject_row(transaction, subject, paused), "resumed": ended}


@group.reads("pauses", "installation")
@accounts_option
def pauses(session: Session, account: str | None) -> list[Row]:
    """Show what is paused, newest first, with the number of waiting messages, counted up to 1000. A pause that has
    ended is shown until its messages are back in the queue."""
    account_id = None if account is None else find_account(session, account).id
    return [_pause_row(pause) for pause in list_pauses(session, account_id)]
