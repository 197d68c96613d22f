"""`flask sends explain`: why a message did not arrive, and the commands that mend it
(docs/cli.md#where-is-my-message)."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

import click
from flask.cli import with_appcontext
from sqlalchemy.orm import Session

from app.accounts.find import all_accounts, find_account
from app.addresses import AccountAddress, AddressKind
from app.cli.addresses import address_kind
from app.cli.base import Command, Row, accounts_option, echo, json_option, print_json
from app.clock import timestamp
from app.db.models import Account
from app.distribution import COMMAND_LINE
from app.http.context import services
from app.ids import UUID
from app.recipients.read import find_recipient
from app.sends.explain.obstacles import obstacles
from app.sends.explain.recipient import ARRIVED, Explained, explain_recipient, newest_messages
from app.sends.explain.waits import Finding, Route


@click.command("explain", cls=Command)
@click.argument("wanted", metavar="UUID|ADDRESS")
@click.option(
    "--limit", type=click.IntRange(1), default=1, show_default=True, help="How many messages to an address to explain."
)
@accounts_option
@json_option
@with_appcontext
def explain(wanted: str, limit: int, account: str | None, as_json: bool) -> None:
    """Say why a message did not arrive and what to do: of a uuid, or of the newest messages to an address."""
    with services().database.read() as session:
        if UUID.fullmatch(wanted):
            found = _message(session, wanted)
            lines, facts = _lines_of_message(found), _facts_of_message(found)
        else:
            kind = address_kind(wanted, besides="a uuid nor ")
            chosen = all_accounts(session) if account is None else [find_account(session, account)]
            told = [_Told(session, one, kind, wanted, limit) for one in chosen]
            lines = [line for one in told for line in one.lines(named=len(chosen) > 1)]
            facts = {"address": wanted, "accounts": [one.facts() for one in told]}
    if as_json:
        print_json(facts)
    else:
        echo("\n".join(lines))


class _Told:
    """What there is to say about an address in one account."""

    def __init__(self, session: Session, account: Account, kind: AddressKind, text: str, limit: int) -> None:
        self._account, self._address = account, AccountAddress.of(account.id, kind, text)
        named = _account_words(session, account)
        newest = session.scalars(newest_messages(session, self._address).limit(limit)).all()
        settings = services().settings
        self._messages = [explain_recipient(session, one, settings, named) for one in newest]
        # A message that did not arrive is followed by what stands in its way.
        tells = bool(self._messages) and self._messages[0].state not in ARRIVED
        self._now = [] if tells else list(obstacles(session, Route(account, kind, self._address, named)))

    def lines(self, *, named: bool) -> Iterator[str]:
        """For people."""
        if named:
            yield f"account {self._account.name}:"
        if not self._messages:
            yield f"No message to {self._address.key} is in the history."
        for message in self._messages:
            yield from _lines_of_message(message)
        if self._now:
            yield "A further message would meet this:"
            yield from _lines(self._now)

    def facts(self) -> Row:
        """For programs."""
        messages = [_facts_of_message(one) for one in self._messages]
        return {"account": self._account.name, "findings": _facts(self._now), "messages": messages}


def _message(session: Session, uuid: str) -> Explained:
    recipient = find_recipient(session, uuid)
    account = session.get_one(Account, recipient.account_id)
    return explain_recipient(session, recipient, services().settings, _account_words(session, account))


def _account_words(session: Session, account: Account) -> tuple[str, ...]:
    """The words by which commands name the account; none where it is the only one."""
    return ("--account", account.name) if len(all_accounts(session)) > 1 else ()


def _lines_of_message(message: Explained) -> list[str]:
    recipient = message.recipient
    to = message.address or ("somebody forgotten" if message.is_forgotten else "a contact without an address")
    head = f"{recipient.uuid}: {recipient.type} to {to}, accepted {timestamp(recipient.creation_time)}: {message.state}"
    return [head, *_lines(message.findings)]


def _lines(findings: Iterable[Finding]) -> Iterator[str]:
    for finding in findings:
        yield from (f"  {line}" for line in finding.text.splitlines())
        yield from (f"      {_written(command)}" for command in finding.commands)


def _facts_of_message(message: Explained) -> Row:
    shown = {name: getattr(message.recipient, name) for name in ("uuid", "type", "reason", "creation_time")}
    return {**shown, "address": message.address, "state": message.state.value, "findings": _facts(message.findings)}


def _facts(findings: Sequence[Finding]) -> list[Row]:
    return [{"text": one.text, "commands": [_written(command) for command in one.commands]} for one in findings]


def _written(command: Sequence[str]) -> str:
    return f"{COMMAND_LINE} {shlex.join(command)}"
