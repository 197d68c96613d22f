"""Options of the commands that release and drop what is held, and the question before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import click

from app.bulk_actions.preview import VALID, LookedAt
from app.cli.base import accounts_option, echo, json_option
from app.cli.bulk_actions import left_out_lines
from app.clock import now
from app.maintenance.findings import counted
from app.sends.holds.held import WAS


class Moment(click.ParamType[datetime]):
    """A time as the API writes it; without an offset it is UTC."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment of the text."""
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is no time such as 2026-11-22T03:00:00Z", param, ctx)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


before_option = click.option("--due-before", type=Moment(), help="Only what was due before this time.")
after_option = click.option("--due-after", type=Moment(), help="Only what was due at this time or later.")
group_option = click.option("--group", "group_", metavar="NAME|ID", help="Only messages of this group.")
was_option = click.option("--was", type=click.Choice(WAS), help="Only messages that were in this state in the backup.")
uuid_option = click.option("--uuid", "uuids", multiple=True, metavar="UUID", help="Only this message; repeatable.")
automation_option = click.option("--automation", metavar="NAME|ID", help="Only runs of this automation.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only count.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def narrowing_messages(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that choose messages."""
    for option in (uuid_option, was_option, after_option, before_option):
        command = option(command)
    return accounts_option(group_option(command))


def of_messages(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of commands that end messages."""
    return narrowing_messages(dry_run_option(yes_option(json_option(command))))


def of_runs(command: Callable[..., None]) -> Callable[..., None]:
    for option in (json_option, yes_option, dry_run_option, after_option, before_option, automation_option):
        command = option(command)
    return accounts_option(command)


def of_events(command: Callable[..., None]) -> Callable[..., None]:
    return accounts_option(dry_run_option(yes_option(json_option(command))))


@dataclass(frozen=True, slots=True)
class HeldNow:
    """How much is held, and what of it would be left out, as counted at a time."""

    held: int
    looked_at: LookedAt = LookedAt()
    time: datetime = field(default_factory=now)

    @property
    def left_out(self) -> int:
        """How many would be left out."""
        return sum(self.looked_at.left_out.values())

    def number_done(self, noun: str) -> str:
        """How many would be acted upon, in words."""
        some = f"{self.held - self.left_out} of " if self.left_out else ""
        return f"{some}{counted(self.held, noun)}"

    @property
    def lines(self) -> Iterator[str]:
        """Why some would be left out."""
        not_looked_at = max(0, self.held - self.looked_at.rows) if self.looked_at.rows else 0
        return left_out_lines(self.looked_at, not_looked_at)


def confirmed(what: str, noun: str, count: Callable[[], HeldNow], *, yes: bool) -> HeldNow:
    """What is held, after asking whether it is to be done. A question that has stood for too long is asked again if
    its numbers have changed."""
    found = count()
    while found.held and not yes:
        echo(f"{counted(found.held, noun)} that {'is' if found.held == 1 else 'are'} held.", err=True)
        for line in found.lines:
            echo(line, err=True)
        click.confirm(f"{what} {found.number_done(noun)}?", abort=True, err=True)
        if now() - found.time <= VALID:
            break
        shown, found = found, count()
        if (shown.held, shown.left_out) == (found.held, found.left_out):
            break
        echo("What is held has changed since the question was asked.", err=True)
    return found
