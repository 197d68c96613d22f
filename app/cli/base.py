"""Options, output and errors of all commands.

A command is a function that gets a session from `Group.reads` or `Group.writes`, or the services from `Group.runs`,
calls one use case, and returns what is shown. An invalid value is reported in one line on standard error with exit
code 2 (docs/cli.md).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal

import click
import orjson
from flask.cli import AppGroup, ScriptInfo
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.accounts.find import all_accounts, find_account
from app.addresses import AddressKind, is_valid_email, is_valid_mobile
from app.audit.actor import acting, command_actor
from app.cli import WholeSentence
from app.clock import followed_clock, timestamp
from app.db.bounded_connection import COMMAND_SECONDS, limit_waits
from app.db.clock_difference import Difference, difference_from
from app.db.database import Database, Transaction
from app.db.engine import without_credentials
from app.db.lookup import Named, find_by_name_or_id
from app.db.models import Account
from app.db.outage import reason
from app.db.schema import schema_of
from app.errors import ServiceError
from app.http.context import EXTENSION, services
from app.infrastructure.clock_watch import NOTICED, WRONG
from app.infrastructure.installation_key import ForeignSecretKey, check_secret_key, compare_secret_key
from app.infrastructure.liveness import databases
from app.infrastructure.redis_client import SENDS
from app.infrastructure.startup_report import ignored_variables
from app.secret_keys import SecretKeys
from app.services import Services

# Untrusted text in a form that is safe for a terminal: control sequences are escaped.
#
# A name, an address or a reply may contain sequences that move the cursor, change the screen or its title, or reverse
# the direction of a line. Pure.

ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that are invisible or change how others are shown: controls, direction and format marks,
surrogates, and line separators."""
JOINERS = "\u200c\u200d"
"""Zero-width joiners are needed to spell names in some scripts and emoji, and are harmless."""
ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str, *, lines: bool = False) -> str:
    """The text with each such character escaped as in Python, `\\x1b`. With `lines` its line ends stay."""
    if lines:
        return "\n".join(map(printable, text.replace("\r\n", "\n").split("\n")))
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if unicodedata.category(character) not in ESCAPED_CATEGORIES or character in JOINERS:
        return character
    return ESCAPES.get(character) or character.encode("unicode_escape", "surrogatepass").decode("ascii")


# Warnings on standard error before a command runs: ignored variables, a wrong clock, and perhaps a wrong database.


def setup_warnings(services: Services) -> list[str]:
    """Warnings about variables without effect, about a database that may not be the intended one, and about a clock
    that differs from the database's."""
    database = without_credentials(services.settings.database_url)
    others = databases(services.settings.data_dir) - {database}
    never_migrated, difference = _state_of_database(services)
    surprises = []
    if never_migrated:
        surprises.append("was never migrated")
    if others:
        surprises.append(f"is not the database of the running service, {' and '.join(sorted(others))}")
    return [
        *ignored_variables(),
        *([f"using the database {database}, which {' and '.join(surprises)}"] if surprises else []),
        *(_warn_of_clock(difference) if difference is not None else ()),
    ]


def _state_of_database(services: Services) -> tuple[bool, Difference | None]:
    """Whether the database has no schema, and how far its clock is from this host's. Nothing of both if it does not
    answer, which the command itself reports."""
    try:
        with services.database.read() as session:
            never_migrated = schema_of(session.connection()).state == "missing"
        return never_migrated, difference_from(services.database)
    except SQLAlchemyError:
        return False, None


def _warn_of_clock(difference: Difference) -> Iterator[str]:
    """Says that the clock differs. As a process that runs, the command then goes by the database's time if it must."""
    if is_followed := abs(difference.seconds) >= WRONG:
        followed_clock.follow(difference.database_time)
    if abs(difference.seconds) >= NOTICED:
        yield f"{difference}{': this command goes by the time of the database' if is_followed else ''}"


def need_installation_key(parts: Services) -> None:
    """Refuses another key to a command that encrypts something, stores keyed hashes or shows what is signed, as a
    process refuses to start: nobody else could read or recognise it (docs/secrets.md#one-key-for-all-hosts). The first
    command records it."""
    _need_key(parts, check_secret_key)


def refuse_other_key(parts: Services) -> None:
    """Refuses another key to a command that reads what is encrypted or looks for keyed hashes. It records none: it may
    run where nobody has set the key, such as in the pipe of a mail server."""
    _need_key(parts, compare_secret_key)


def _need_key(parts: Services, check: Callable[[Database, SecretKeys], object]) -> None:
    try:
        check(parts.database, parts.settings.secret_keys)
    except ForeignSecretKey as error:
        raise WrongValue(str(error)) from None


Row = Mapping[str, Any]
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
Ownership = Literal["account", "all accounts", "installation"]


@dataclass(frozen=True, slots=True)
class NamedItem:
    """What a command is of that a parameter names: something of an account, or of the installation."""

    parameter: Decorator
    """The first parameter of the command, `named`."""
    find: Callable[..., Any]
    """Finds it, from a session, the id of the account if it is of one, and the parameter."""
    whose: Ownership = "account"


Target = Ownership | NamedItem
"""What a command is of."""
Printer = Callable[[Any, bool], None]
"""Prints the result of a command, as JSON or for people."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command without a row to show: a line for people, the facts for JSON, and the exit code."""

    line: str
    facts: Row
    exit_code: int = 0


class Failure(click.ClickException):
    """An error that is printed on standard error; it may quote untrusted text."""

    def format_message(self) -> str:
        """The message without control characters."""
        return printable(self.message, lines=True)


class WrongValue(Failure):
    """A value that cannot be used, printed without the usage text."""

    exit_code = 2


class Unavailable(Failure):
    """A component that the command needs is unavailable."""

    exit_code = 1


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turns the errors of a command into lines on standard error."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        raise WrongValue(usage_problem(error)) from None
    except ServiceError as error:
        raise WrongValue("\n       ".join(field_error.developer_message for field_error in error.errors)) from None
    except SQLAlchemyError as error:
        raise Unavailable(f"the database cannot be used: {reason(error)}") from None


# What click says of an argument or option in several lines, or in the words of a programmer.

_IN_OTHER_WORDS = (
    (re.compile(r"is not a valid integer(?: range)?\."), "is not a whole number."),
    (re.compile(r"is not a valid float(?: range)?\."), "is not a number."),
    (re.compile(r"is not a valid boolean\..*", re.DOTALL), "is neither on nor off."),
    (re.compile(r"is not in the range x>=(\S+)\."), r"is less than \1."),
    (re.compile(r"is not in the range (\S+)<=x<=(\S+)\."), r"is not a number from \1 to \2."),
)


def usage_problem(error: click.UsageError) -> str:
    """What is wrong with the arguments and options of a command, as a sentence without the notation of usage lines."""
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return _missing(error.param)
    text = error.format_message()
    for pattern, words in _IN_OTHER_WORDS:
        text = pattern.sub(words, text)
    return text


def _missing(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        # An argument that takes one of several things is written `FILE|FOLDER`.
        names = (parameter.metavar or str(parameter.name).upper()).strip("[]").split("|")
        return f"Missing argument {' or '.join(repr(name.strip().removesuffix('...')) for name in names)}."
    if isinstance(parameter.type, click.Choice):
        return f"Missing option '{parameter.opts[0]}': it is one of {', '.join(parameter.type.choices)}."
    return f"Missing option '{parameter.opts[0]}'."


class Command(WholeSentence):
    """A command that reports errors in one line."""

    warns_of_setup = True

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        """Parses the arguments."""
        with one_line_errors():
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Prints the warnings about the setup, then runs the command. It may wait longer for the database than a
        request, because the operator can interrupt it."""
        actor = command_actor(ctx.command_path.partition(" ")[2])
        with one_line_errors(), limit_waits(COMMAND_SECONDS), acting(actor):
            parts = ctx.ensure_object(ScriptInfo).load_app().extensions[EXTENSION]
            for line in setup_warnings(parts) if self.warns_of_setup else ():
                echo(line, err=True)
            return super().invoke(ctx)


class Group(WholeSentence, AppGroup):
    """A group of commands for one noun that report errors in one line."""

    command_class = Command

    def resolve_command(self, *args: Any, **options: Any) -> Any:
        """Finds the command."""
        with one_line_errors():
            return super().resolve_command(*args, **options)

    def reads(self, name: str, of: Target = "account", shows: Printer | None = None, **attributes: Any) -> Decorator:
        """Makes a command of a function that returns what to show. It gets a session, the account or the thing that the
        command is `of`, and the arguments and options.

        A command of "all accounts" shows what the function returns for each, unless --account names one; a command of
        the "installation" is of nothing. `shows` prints the result in place of `print_result`.
        """
        return self._adds(name, of, shows or print_result, partial(_in_session, Database.read), attributes)

    def writes(
        self,
        name: str,
        of: Target = "account",
        shows: Printer | None = None,
        *,
        needs_key: bool = False,
        **attributes: Any,
    ) -> Decorator:
        """Makes a command of a function that changes something, as `reads`, in a transaction that is committed before
        the result is shown. One that encrypts something, or knows addresses by keyed hashes, needs the key of the
        installation."""
        calls = _in_transaction_with_key if needs_key else partial(_in_session, Database.write)
        return self._adds(name, of, shows or print_result, calls, attributes)

    def runs(self, name: str, of: Target = "account", shows: Printer | None = None, **attributes: Any) -> Decorator:
        """Makes a command of a function that opens sessions itself, as many as it needs: it gets the services in place
        of a session. What it is of was read before."""
        return self._adds(name, of, shows or print_result, _with_services, attributes)

    def _adds(self, name: str, of: Target, shows: Printer, calls: Callable[..., Any], attributes: Any) -> Decorator:
        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            def run(*, as_json: bool, **given: Any) -> None:
                shows(calls(function, of, given), as_json)

            json_option(run)
            for option in OWNER_OPTIONS[_whose(of)]:
                option(run)
            run.__click_params__ += getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
            if isinstance(of, NamedItem):
                of.parameter(run)
            self.command(name, **{"help": function.__doc__, **attributes})(run)
            return function

        return add


def _in_session(
    opens: Callable[[Database], Any], function: Callable[..., Any], of: Target, given: dict[str, Any]
) -> Any:
    with opens(services().database) as session:
        if of == "all accounts":
            return rows_of_accounts(session, given.pop("account"), lambda account: function(session, account, **given))
        return function(session, *_targets(session, of, given), **given)


def _in_transaction_with_key(function: Callable[..., Any], of: Target, given: dict[str, Any]) -> Any:
    need_installation_key(services())
    return _in_session(Database.write, function, of, given)


def _with_services(function: Callable[..., Any], of: Target, given: dict[str, Any]) -> Any:
    with services().database.read() as session:
        targets = _targets(session, of, given)
    return function(services(), *targets, **given)


def _targets(session: Session, of: Target, given: dict[str, Any]) -> list[Any]:
    """The account or thing that the command is of, if any. The options that name it are removed from `given`."""
    targets = [] if _whose(of) == "installation" else [find_account(session, given.pop("account"))]
    if isinstance(of, NamedItem):
        return [of.find(session, *(account.id for account in targets), given.pop("named"))]
    return targets


def _whose(of: Target) -> Ownership:
    return of.whose if isinstance(of, NamedItem) else of


def by_name_or_id(model: type[Named]) -> NamedItem:
    """A row of an account that is named by its name or id."""
    noun = model.__name__

    def find(session: Session, account_id: int, name_or_id: str) -> Named:
        return find_by_name_or_id(session, model, account_id, name_or_id, noun.lower())

    return NamedItem(click.argument("named", metavar=noun.upper()), find)


def combine_options(*options: Decorator) -> Decorator:
    """A decorator that adds all the options to a command, in this order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


account_option = click.option("--account", metavar="NAME|ID", help="The account. Optional if there is only one.")
accounts_option = click.option("--account", metavar="NAME|ID", help="Only this account. Default: all accounts.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
list_option = click.option("--list", "list_", metavar="NAME|ID", required=True, help="The list.")
OWNER_OPTIONS: Mapping[Ownership, Sequence[Callable[[Any], Any]]] = {
    "account": [account_option],
    "all accounts": [accounts_option],
    "installation": [],
}
"""Ownership a thing is -> the options that say so."""
limit_option = click.option(
    "--limit", type=click.IntRange(1), default=100, show_default=True, help="Number of rows to show, newest first."
)


def rows_of_accounts(
    session: Session, name_or_id: str | None, rows_of: Callable[[Account], Iterable[Row]]
) -> list[Row]:
    """The rows of the account; for None those of all accounts, each row beginning with the account's name."""
    if name_or_id is not None:
        return list(rows_of(find_account(session, name_or_id)))
    return [{"account": each.name, **row} for each in all_accounts(session) for row in rows_of(each)]


def address_kind(text: str, *, besides: str = "") -> AddressKind:
    """The kind of an address. Raises `WrongValue` for any other text; `besides` is what else would be accepted."""
    if "@" in text and is_valid_email(text):
        return "email"
    if "@" not in text and is_valid_mobile(text):
        return "mobile"
    raise WrongValue(f"{text!r} is neither {besides}an email address nor a mobile number such as 61411111111")


def pairs_of(filters: Sequence[str]) -> list[tuple[str, str]]:
    """The parameters of filters as they are typed, such as `state=failed`."""
    return [(name, value) for name, _, value in (filter_text.partition("=") for filter_text in filters)]


def given_options(**attributes: Any) -> dict[str, Any]:
    """The attributes of the options that were given; an empty string clears an attribute, also one whose option may be
    repeated."""
    given = {name: value for name, value in attributes.items() if value not in (None, ())}
    return {
        name: [item for item in value if item] if isinstance(value, tuple) else None if value == "" else value
        for name, value in given.items()
    }


def echo(text: str, *, err: bool = False) -> None:
    """Prints text for people. All such output goes through this function, so that untrusted text cannot control the
    terminal."""
    click.echo(printable(text, lines=True), err=err)


def print_result(result: Any, as_json: bool) -> None:
    """Prints the result of a command: one row, several, or what it has done."""
    match result:
        case CommandResult(line, facts, exit_code):
            print_done(line, facts, as_json)
            if exit_code:
                raise click.exceptions.Exit(exit_code)
        case Mapping():
            print_row(result, as_json)
        case _:
            print_rows(result, as_json)


def columns(*names: str) -> Printer:
    """Prints rows of which people see the columns with these keys, where the rows have them; JSON has all."""

    def shows(rows: Any, as_json: bool) -> None:
        print_rows(rows if as_json else [{name: row[name] for name in names if name in row} for row in rows], as_json)

    return shows


def row_with_table(key: str, heading: str) -> Printer:
    """Prints a row of which people see the rows under this key as a table below it, after a heading; JSON has all."""

    def shows(row: Any, as_json: bool) -> None:
        if as_json:
            print_json(row)
            return
        print_row({name: value for name, value in row.items() if name != key}, as_json)
        echo(heading)
        print_rows(row[key], as_json)

    return shows


def print_rows(rows: Sequence[Row], as_json: bool) -> None:
    """Prints rows with the same keys as JSON, or as an aligned table with the keys as its header."""
    if as_json:
        print_json(list(rows))
    elif not rows:
        echo("none")
    else:
        cells = [[str(key).replace("_", " ").upper() for key in rows[0]]]
        cells += [[_plain(value) for value in row.values()] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for line in cells:
            echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def print_row(row: Row, as_json: bool, *, texts: Collection[str] = ()) -> None:
    """Prints one row as JSON, or a line per key. Values of the keys in `texts` may have several lines, below the
    key."""
    if as_json:
        print_json(row)
        return
    width = max(map(len, row)) + 2
    for key, value in row.items():
        text = _plain(value, lines=key in texts)
        gap = "\n" if "\n" in text else ""
        echo(f"{(key.replace('_', ' ') + ':').ljust(width)}{gap}{text}".rstrip())


def print_done(line: str, facts: Row, as_json: bool, *, err: bool = False) -> None:
    """Prints the result of a command without a row to show: a line for people, or the facts as JSON. `err` is for
    commands whose standard output is a file."""
    if as_json:
        print_json(facts, err=err)
    else:
        echo(line, err=err)


def print_part_of_json(text: str) -> None:
    """Prints JSON of which there is too much to have at once; it escapes control characters itself."""
    click.echo(text, nl=False)


def print_json(value: Any, *, err: bool = False) -> None:
    """Prints indented JSON, with times in the format of the API."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_PASSTHROUGH_DATETIME
    click.echo(orjson.dumps(value, default=_json, option=options).decode(), err=err)


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return timestamp(value)
    raise TypeError(type(value))


def _plain(value: Any, *, lines: bool = False) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return timestamp(value)
    if isinstance(value, list | tuple):
        return ", ".join(printable(str(element)) for element in value)
    return printable(str(value), lines=lines)


# Waking workers after a change that they have to notice.


def wake_after(transaction: Transaction, queue: str = SENDS) -> None:
    """Wakes a worker after the commit: over a new transport replies may arrive while there is nothing to send."""
    wake_ups = services().wake_ups
    transaction.after_commit(lambda: wake_ups.wake(queue))
