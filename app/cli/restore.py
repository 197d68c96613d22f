"""`flask restore`: a backup into an empty database, with everything held that it would send again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from flask.cli import with_appcontext

from app.backup.manifest import NotABackup
from app.backup.restore import OutcomeNotKnown, RestoreRefused, RestoreReport, restore_backup, restored_before
from app.backup.secret_key import OtherSecretKey
from app.cli.base import Command, Unavailable, WrongValue, echo, json_option, print_json
from app.cli.progress import parts_of
from app.clock import timestamp
from app.db.copies.load import DatabaseNotEmpty
from app.db.copies.snapshot import CopyError
from app.db.engine import without_credentials
from app.db.migrate import MigrationError
from app.distribution import COMMAND_LINE
from app.http.context import services
from app.maintenance.words import counted


class RestoreCommand(Command):
    """A command that does not warn of a database that was never migrated."""

    warns_of_setup = False


@click.command("restore", cls=RestoreCommand, epilog=f"`{COMMAND_LINE} holds list` shows what is held.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--other-secret-key",
    is_flag=True,
    help="Restore even if SECRET_KEY differs. Stored secrets then become unreadable, and links in mails that were sent "
    "stop working.",
)
@json_option
@with_appcontext
def command(file: Path, other_secret_key: bool, as_json: bool) -> None:
    """Restore the backup FILE into an empty database. Messages that it would send are held."""
    with _errors(file), parts_of() as begin:
        restored = restore_backup(services(), file, any_secret_key=other_secret_key, begin=begin)
    if as_json:
        print_json(_facts(restored))
    else:
        _print(restored)


def _facts(restored: RestoreReport) -> dict[str, object]:
    held = {"messages": restored.messages - restored.settled, "runs": restored.runs, "webhooks": restored.webhooks}
    return {
        **restored.manifest.facts(),
        "secret_key": restored.secret_key,
        "settled": restored.settled,
        "held": held,
        "audit_breaks": [break_._asdict() for break_ in restored.audit_breaks],
    }


def _print(restored: RestoreReport) -> None:
    database = without_credentials(services().settings.database_url)
    echo(f"restored {counted(restored.manifest.rows, 'row')} of {timestamp(restored.manifest.taken)} into {database}")
    if restored.secret_key:
        echo("took SECRET_KEY from the backup; the previous key is kept in DATA_DIR")
    if restored.settled:
        echo(f"wrote {counted(restored.settled, 'outcome')} from the journals of the backup or of this machine")
    if restored.audit_breaks:
        first = restored.audit_breaks[0]
        echo(f"the audit log of the backup was changed, first at {first}: run `{COMMAND_LINE} audit verify`")
    held = restored.messages - restored.settled
    runs, webhooks = counted(restored.runs, "run"), counted(restored.webhooks, "webhook")
    echo(f"held: {counted(held, 'message')}, {runs} of automations, {webhooks}")
    if held or restored.runs or restored.webhooks:
        echo(f"They are not sent until you release them. See `{COMMAND_LINE} holds list`.")


@contextmanager
def _errors(file: Path) -> Iterator[None]:
    try:
        yield
    except NotABackup as error:
        raise WrongValue(f"{file} cannot be restored: {error}") from None
    except DatabaseNotEmpty as error:
        raise WrongValue(_not_empty(error)) from None
    except (RestoreRefused, OtherSecretKey) as error:
        raise WrongValue(str(error)) from None
    except (CopyError, MigrationError) as error:
        raise Unavailable(f"nothing was restored: {error}") from None
    except OutcomeNotKnown as error:
        unknown = "either everything or nothing was restored; repeat the command to find out or to finish"
        raise Unavailable(f"the connection was lost at the very end: {error}; {unknown}") from None
    except OSError as error:
        raise WrongValue(f"{error.filename or file}: {error.strerror or error}") from None


def _not_empty(error: DatabaseNotEmpty) -> str:
    database = without_credentials(services().settings.database_url)
    if before := restored_before(services().database):
        name, moment = before
        done = f"{name} was completely restored into it at {timestamp(moment)}, and what it would send is held"
        return f"the database {database} is not empty: {done} (`{COMMAND_LINE} holds list`)"
    return f"the database {database} is not empty: {error}; restore into an empty one"
