"""Relays that refuse everything of an account: a fault of our own, not of the recipients.

A relay refuses emails of an account to three domains within five minutes, for reasons that lie in no mailbox, and
accepts none meanwhile: it is set up wrongly, or has no use for the account. From then on the account's messages over
it wait instead of bouncing, and one is tried at growing intervals. The next one that it accepts ends that.
`app/sends/delivery/postponed.py` makes the messages wait.

The database alone knows, so that all senders act as one. What nobody has refused costs nothing: the select that locks
the rows of a batch also tells whose account has a refusal.
"""

from __future__ import annotations

import logging
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, exists, or_, select, update
from sqlalchemy.orm import Session

from app.addresses import domain_of
from app.clock import now, timestamp
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Account, Recipient, RelayRefusal
from app.distribution import COMMAND_LINE
from app.recipients.collection import RECIPIENTS_SHAPE
from app.recipients.conditions import settled_as
from app.recipients.redaction import without_address
from app.recipients.row import RecipientRow
from app.recipients.states import RecipientState
from app.routing.table import DEFAULT_TRANSPORT
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.refusals import refuses_address
from app.sends.outcomes.transitions import RetryRules
from app.transports.base import Outcome

logger = logging.getLogger(__name__)


MIN_REFUSING_DOMAINS = 3
"""Domains whose recipients are refused, with nothing accepted meanwhile: then it is not about the recipients."""
WINDOW = timedelta(minutes=5)
MAX_INTERVAL = 300.0
"""Seconds between two tries, however many were refused."""
NO_SMTPUTF8 = "5.6.7"
"""Our own answer for a relay that cannot take such an address (app/transports/email/smtp.py)."""

Attempt = tuple[RecipientRow, AttemptResult]

IS_OPEN = RelayRefusal.ended_time.is_(None)
IS_NOTICED = IS_OPEN, RelayRefusal.noticed_time.is_not(None)
"""The transport refuses everything of the account."""
HAS_REFUSAL: ColumnElement[bool] = exists().where(RelayRefusal.account_id == Recipient.account_id, IS_OPEN)
"""Whether a transport has refused something of the recipient's account since it last accepted something."""


class RelayKey(NamedTuple):
    """The mail that is refused together: all mail of an account over a transport."""

    account_id: int
    transport: str

    @classmethod
    def of(cls, attempt: Attempt) -> RelayKey:
        """The key of the message of an attempt."""
        row, result = attempt
        return cls(row.account_id, result.transport or DEFAULT_TRANSPORT)


def update_refusals(
    transaction: Transaction, attempts: Iterable[Attempt], suspects: Collection[int], rules: RetryRules
) -> Collection[int]:
    """Counts refusals, and ends those of transports that have accepted a message. Returns the recipients whose relay
    refuses everything of their account. `suspects` are those with `HAS_REFUSAL`: if there is none, and no refusal
    either, this takes no statement."""
    answered = [attempt for attempt in attempts if _is_answer(*attempt)]
    refused = _by_key(attempt for attempt in answered if is_refusal(attempt[1]))
    suspected = {RelayKey.of(attempt) for attempt in answered if attempt[0].id in suspects}
    if not refused and not suspected:
        return ()
    accepted = _by_key(attempt for attempt in answered if _is_acceptance(attempt[1]))
    new = {key: results for key, results in refused.items() if key not in accepted}
    if not new and not suspected:
        return ()
    if new:
        rows = [_new_row(key, new[key]) for key in sorted(new)]
        insert_new_rows(transaction, RelayRefusal, rows)
    refusing = set()
    for row in _lock(transaction, new.keys() | suspected):
        key = RelayKey(row.account_id, row.transport)
        if any(result.moment >= row.first_time for result in accepted.get(key, ())):
            _end(transaction, row)
            continue
        if key in new:
            _add(transaction, row, new[key], rules)
        if row.noticed_time is not None:
            refusing.add(key)
    transaction.flush()
    return {row.id for row, result in answered if RelayKey.of((row, result)) in refusing and not _is_final(result)}


def try_now(transaction: Transaction, *conditions: ColumnElement[bool]) -> None:
    """Makes the next try due of the transports that meet the conditions: somebody has solved the problem."""
    waiting = update(RelayRefusal).where(*IS_NOTICED, RelayRefusal.until_time > now(), *conditions)
    transaction.execute(waiting.values(until_time=now()), execution_options={"synchronize_session": False})


def is_refusal(attempt_result: AttemptResult) -> bool:
    """Whether a relay has refused the message for a reason that lies in no mailbox."""
    result = attempt_result.result
    if result is None or result.outcome is not Outcome.REFUSED or result.status == NO_SMTPUTF8:
        return False
    return not refuses_address(result)


def _is_final(attempt_result: AttemptResult) -> bool:
    """Whether a mail was refused for what it is, whatever becomes of the relay."""
    result = attempt_result.result
    return result is not None and result.outcome is Outcome.REFUSED and not is_refusal(attempt_result)


def _is_answer(row: RecipientRow, attempt_result: AttemptResult) -> bool:
    """Whether a transport of emails has answered. A message that is found to have arrived was not rendered."""
    return row.type == "email" and not attempt_result.is_test and attempt_result.rendered is not None


def _is_acceptance(attempt_result: AttemptResult) -> bool:
    return attempt_result.result is not None and attempt_result.result.outcome is Outcome.ACCEPTED


def _by_key(attempts: Iterable[Attempt]) -> dict[RelayKey, list[AttemptResult]]:
    """The results, in the order of their moments."""
    results: dict[RelayKey, list[AttemptResult]] = defaultdict(list)
    for attempt in sorted(attempts, key=lambda attempt: attempt[1].moment):
        results[RelayKey.of(attempt)].append(attempt[1])
    return results


def _new_row(key: RelayKey, refused: Sequence[AttemptResult]) -> Mapping[str, Any]:
    times = {"first_time": refused[0].moment, "last_time": refused[-1].moment}
    return {**key._asdict(), **times, "domains": {}, "reply": "", "bounced": 0, "failures": 0}


def _lock(transaction: Transaction, keys: Collection[RelayKey]) -> Sequence[RelayRefusal]:
    """Locks the open refusals of these keys in a fixed order, so that two workers never wait for each other."""
    account_filter = in_json(RelayRefusal.account_id, {key.account_id for key in keys})
    rows = select(RelayRefusal).where(account_filter, IS_OPEN).order_by(RelayRefusal.id).with_for_update()
    return [row for row in transaction.scalars(rows) if (row.account_id, row.transport) in keys]


def _add(transaction: Transaction, row: RelayRefusal, refused: Sequence[AttemptResult], rules: RetryRules) -> None:
    last = refused[-1]
    row.last_time = max(row.last_time, last.moment)
    if row.noticed_time is None:
        row.domains = _with_domains(row.domains, refused, row.last_time)
        row.reply = without_address(last.result.reply if last.result else "", last.address) or ""
        if len(row.domains) < MIN_REFUSING_DOMAINS:
            row.bounced += len(refused)
        else:
            row.noticed_time = now()
            _try_later(row, rules)
            extra = {"account_id": row.account_id, "transport": row.transport, "reply": row.reply}
            transaction.after_commit(lambda: logger.warning("a relay refuses all messages of an account", extra=extra))
    elif any(result.recipient_id == row.probe_id for result in refused):
        _try_later(row, rules)


def _with_domains(before: Mapping[str, str], refused: Iterable[AttemptResult], last_time: datetime) -> dict[str, str]:
    """The latest domains, at most `MIN_REFUSING_DOMAINS`, with the times of their latest refusals."""
    since = (last_time - WINDOW).isoformat()
    refused_times = {domain_of(result.address or ""): result.moment.isoformat() for result in refused}
    times = {domain: time for domain, time in {**before, **refused_times}.items() if domain and time >= since}
    latest = sorted(times, key=lambda domain: times[domain], reverse=True)
    return {domain: times[domain] for domain in latest[:MIN_REFUSING_DOMAINS]}


def _try_later(row: RelayRefusal, rules: RetryRules) -> None:
    row.failures, row.probe_id = row.failures + 1, None
    row.until_time = now() + timedelta(seconds=min(rules.delay(row.failures), MAX_INTERVAL))


def _end(transaction: Transaction, row: RelayRefusal) -> None:
    """Ends a refusal. A noticed one is kept: messages that it ended may wait for somebody to send them again."""
    if row.noticed_time is None:
        transaction.delete(row)
        return
    row.ended_time = now()
    extra = {"account_id": row.account_id, "transport": row.transport}
    transaction.after_commit(lambda: logger.warning("a relay accepts messages of an account again", extra=extra))


# Relays that refuse everything of an account, as people see them: in what needs attention, in pages, and in what is
# said of a message.

MAX_SHOWN_REFUSALS = 10
MARGIN = timedelta(minutes=1)
"""The first refusal that counts may follow some of the same batch, in which others were still accepted."""
LOOK_BACK_PERIOD = timedelta(days=3)
"""What was accepted longer ago is not looked for among the messages that are still to be sent again."""


class ShownRefusal(NamedTuple):
    """A transport that refuses everything of an account, or has done so until `ended_time`: then messages that have
    bounced by that have not been sent again. `bounced` is their number."""

    account_id: int
    account: str
    transport: str
    reply: str
    bounced: int
    first_time: datetime
    noticed_time: datetime
    until_time: datetime
    ended_time: datetime | None

    @property
    def filters(self) -> Sequence[tuple[str, str]]:
        """The query of the messages that have bounced."""
        end = "" if self.ended_time is None else timestamp(self.ended_time + MARGIN)
        ends = f"{timestamp(self.first_time - MARGIN)}..{end}"
        return [("state", "bounced"), ("transport", self.transport), ("end_time:in", ends)]

    def command(self, name: str) -> tuple[str, ...]:
        """The words of a command about these: `list` or `retry`."""
        return "sends", name, *(f"{key}={value}" for key, value in self.filters), "--account", self.account

    @property
    def sentence(self) -> str:
        """What is the matter, where commands stand beside it."""
        said = self.words(commands=False)
        return f"{said[0].upper()}{said[1:]}."

    def words(self, *, commands: bool = True) -> str:
        """What is the matter, and what to do."""
        since = timestamp(self.first_time)
        if self.ended_time is not None:
            said = f"the transport {self.transport} refused all messages of {self.account} from {since} to "
            return f"{said}{timestamp(self.ended_time)}: {self._bounced(commands)}"
        said = f"the transport {self.transport} has refused all messages of {self.account} since {since}"
        waiting = f"Its messages wait, no address is blocked, and the next attempt is at {timestamp(self.until_time)}"
        return f"{said}, with: {self.reply}. {waiting}{f'. {self._bounced(commands)}' if self.bounced else ''}"

    def _bounced(self, commands: bool) -> str:
        number = "1 message" if self.bounced == 1 else f"{self.bounced} messages"
        said = f"{number} bounced before this was noticed"
        listing, retrying = (f"`{COMMAND_LINE} {shlex.join(self.command(name))}`" for name in ("list", "retry"))
        return f"{said}: {listing} lists them, and {retrying} sends them again" if commands else said


def shown_refusals(session: Session, account_id: int | None) -> Sequence[ShownRefusal]:
    """The refusals of the account, or of all accounts for None, that go on or have left messages to send again, the
    oldest first: one statement."""
    refusal = RelayRefusal
    columns = (
        refusal.transport,
        refusal.reply,
        refusal.bounced,
        refusal.first_time,
        refusal.noticed_time,
        refusal.until_time,
        refusal.ended_time,
    )
    rows = select(Account.id, Account.name, *columns).join(Account, Account.id == refusal.account_id)
    rows = rows.where(refusal.noticed_time.is_not(None), or_(IS_OPEN, _has_bounced()))
    if account_id is not None:
        rows = rows.where(refusal.account_id == account_id)
    return [ShownRefusal._make(row) for row in session.execute(rows.order_by(refusal.id).limit(MAX_SHOWN_REFUSALS))]


def _has_bounced() -> ColumnElement[bool]:
    """Whether messages that have bounced by it have not been sent again."""
    ended = RECIPIENTS_SHAPE.filter_columns
    return exists().where(
        RelayRefusal.bounced > 0,
        Recipient.account_id == RelayRefusal.account_id,
        settled_as(RecipientState.BOUNCED),
        Recipient.creation_time >= now() - LOOK_BACK_PERIOD,
        ended["end_time"].between(RelayRefusal.first_time, RelayRefusal.ended_time),
        ended["transport"] == RelayRefusal.transport,
    )
