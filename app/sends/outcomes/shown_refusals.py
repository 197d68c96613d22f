"""Relays that refuse everything of an account, as people see them: in what needs attention, in pages, and in what is
said of a message."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import ColumnElement, exists, or_, select
from sqlalchemy.orm import Session

from app.clock import now, timestamp
from app.db.models import Account, Recipient, RelayRefusal
from app.distribution import COMMAND_LINE
from app.recipients.collection import WHOLE
from app.recipients.conditions import settled_as
from app.recipients.states import RecipientState
from app.sends.outcomes.relay_refusals import IS_OPEN

MOST_SHOWN = 10
MARGIN = timedelta(minutes=1)
"""The first refusal that counts may follow some of the same batch, in which others were still accepted."""
LOOKED_BACK = timedelta(days=3)
"""What was accepted longer ago is not looked for among the messages that are still to be sent again."""


class ShownRefusal(NamedTuple):
    """A transport that refuses everything of an account, or has done so until `ended_time`: then messages that have
    bounced by that have not been sent again. `bounced` is their number."""

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
            said = f"the transport {self.transport} refused everything of {self.account} from {since} to "
            return f"{said}{timestamp(self.ended_time)}: {self._bounced(commands)}"
        said = (
            f"the transport {self.transport} has refused everything of {self.account} since {since}, with: {self.reply}"
        )
        waiting = f"; its messages wait and nobody is blocked, and the next is tried at {timestamp(self.until_time)}"
        return f"{said}{waiting}{f'; {self._bounced(commands)}' if self.bounced else ''}"

    def _bounced(self, commands: bool) -> str:
        number = "1 message" if self.bounced == 1 else f"{self.bounced} messages"
        said = f"{number} bounced before that was noticed"
        listing, retrying = (f"`{COMMAND_LINE} {shlex.join(self.command(name))}`" for name in ("list", "retry"))
        return f"{said}: {listing} lists them, and {retrying} sends them again" if commands else said


def shown_refusals(session: Session, account_id: int | None) -> Sequence[ShownRefusal]:
    """Those of the account, or of all, that go on or have left messages to send again, the oldest first: one
    statement."""
    one = RelayRefusal
    columns = one.transport, one.reply, one.bounced, one.first_time, one.noticed_time, one.until_time, one.ended_time
    rows = select(Account.name, *columns).join(Account, Account.id == one.account_id)
    rows = rows.where(one.noticed_time.is_not(None), or_(IS_OPEN, _has_bounced()))
    if account_id is not None:
        rows = rows.where(one.account_id == account_id)
    return [ShownRefusal._make(row) for row in session.execute(rows.order_by(one.id).limit(MOST_SHOWN))]


def _has_bounced() -> ColumnElement[bool]:
    """Whether messages that have bounced by it have not been sent again."""
    ended = WHOLE.filter_columns
    return exists().where(
        RelayRefusal.bounced > 0,
        Recipient.account_id == RelayRefusal.account_id,
        settled_as(RecipientState.BOUNCED),
        Recipient.creation_time >= now() - LOOKED_BACK,
        ended["end_time"].between(RelayRefusal.first_time, RelayRefusal.ended_time),
        ended["transport"] == RelayRefusal.transport,
    )
