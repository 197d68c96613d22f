"""`flask secrets`: the SECRET_KEYs of the installation, and what is encrypted under each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from app.cli.base import CommandResult, Group, Row, Unavailable, WrongValue, echo, print_done
from app.cli.progress import progress
from app.distribution import COMMAND_LINE
from app.http.context import services
from app.infrastructure.installation_key import recorded_fingerprint
from app.maintenance.stored_secrets import (
    Progress,
    Rotation,
    RotationRefused,
    StoredSecrets,
    adopt,
    check_retirable,
    count_secrets,
    encrypted_columns,
    processes_by_key,
    retire,
    rotate,
)
from app.maintenance.words import counted
from app.secret_keys import SecretKeys, fingerprint, generated_keys, short_fingerprint
from app.services import Services

group = Group("secrets", help="SECRET_KEY and its fallbacks, shown as fingerprints.")
UNKNOWN_KEY = "unknown"
WARNING = """\
Everything that was made with the key {key} becomes invalid for good:
- links, opt-out links and bounce addresses of mails that were sent
- report addresses in the DNS of sending domains, and the Kannel URL, unless you have renewed them
- backups that were made while the key was in use, unless they contain it (they do by default)
- searches by address for audit log entries that were made while the key was in use
- idempotency keys of requests with secret values: a repeated request gets a conflict\
"""

LOSS = """\
Processes that have only the key {key} do not start any more, and this is lost unless you list that key again:
- stored secrets: of webhooks, domains, transports and messages
- what becomes invalid when a key is retired: links in mails, return paths, report addresses\
"""


def _keys() -> SecretKeys:
    """The SECRET_KEYs of the installation, the one that was generated last in front."""
    settings = services().settings
    generated = generated_keys(settings.data_dir)
    current_keys = settings.secret_keys
    return tuple(dict.fromkeys((*generated, *current_keys))) if settings.secret_key in generated else current_keys


def _source(key: str) -> str:
    settings = services().settings
    if key == settings.secret_key and key not in generated_keys(settings.data_dir):
        return "SECRET_KEY"
    return "SECRET_KEY_FALLBACKS" if key in settings.secret_key_fallbacks else "DATA_DIR"


def _rows(keys: SecretKeys, stored: StoredSecrets) -> list[Row]:
    """A row for each key, and one for what none of them decrypts, if there is anything."""
    tables = list(dict.fromkeys(str(column.table.name) for column in encrypted_columns()))
    signing = [fingerprints[:1] for _, fingerprints in processes_by_key(services().database)]
    rows: list[Row] = [
        {
            "key": short_fingerprint(key),
            "use": "verifies, decrypts" if index else "signs, encrypts",
            "from": _source(key),
            "signing_processes": signing.count((short_fingerprint(key),)),
            **{table: stored.by_key[table, key] for table in tables},
        }
        for index, key in enumerate(keys)
    ]
    if stored.unreadable.total():
        counts = {table: stored.unreadable[table] for table in tables}
        rows.append({"key": UNKNOWN_KEY, "use": "-", "from": "-", "signing_processes": 0, **counts})
    return rows


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except RotationRefused as error:
        raise WrongValue(str(error)) from None
    except OSError as error:
        raise Unavailable(f"the keys in DATA_DIR cannot be replaced: {error.strerror}") from None


@group.runs("status", "installation")
def status(parts: Services) -> list[Row]:
    """Show the keys, the processes that sign with each, and the number of stored secrets encrypted under each."""
    keys = _keys()
    return _rows(keys, count_secrets(parts.database, keys))


def _print_rotation(done: Rotation, as_json: bool) -> None:
    new, written = short_fingerprint(done.key), counted(done.written, "stored secret")
    facts = {"key": new, "new": done.is_new, "encrypted": done.written, "keys": _rows(_keys(), done.stored)}
    print_done(f"encrypted {written} under {'a new key' if done.is_new else 'SECRET_KEY'}, {new}", facts, as_json)
    if unreadable := done.stored.unreadable.total():
        left = counted(unreadable, "stored secret")
        echo(f"left unchanged, because they are encrypted under an unknown key: {left}", err=True)
    if not as_json:
        echo("the old keys stay valid for existing data; processes sign with the new key after a restart")


@group.runs("rotate", "installation", _print_rotation)
def rotate_(parts: Services) -> Rotation:
    """Encrypt all stored secrets under SECRET_KEY. A generated SECRET_KEY is replaced by a new one first."""
    with _one_line(), progress("encrypting", None) as advance:
        return rotate(parts, Progress(lambda line: echo(line, err=True), advance))


@group.runs("adopt", "installation")
@click.option("--yes", is_flag=True, help="Do not ask.")
def adopt_(parts: Services, yes: bool) -> CommandResult:
    """Make SECRET_KEY the key of the installation after the former key was lost. What is encrypted under that stays
    unreadable."""
    key, recorded = parts.settings.secret_key, recorded_fingerprint(parts.database)
    name = short_fingerprint(key)
    if recorded == fingerprint(key):
        return CommandResult(f"{name} is the key of the installation already", {"key": name, "adopted": False})
    if recorded is not None and not yes:
        echo(LOSS.format(key=recorded[:8]), err=True)
        click.confirm(f"Make {name} the key of the installation?", abort=True, err=True)
    adopt(parts)
    return CommandResult(f"{name} is the key of the installation now", {"key": name, "adopted": True})


@group.runs("retire", "installation")
@click.argument("key", metavar="FINGERPRINT")
@click.option("--yes", is_flag=True, help="Do not ask.")
def retire_(parts: Services, key: str, yes: bool) -> CommandResult:
    """Forget a former key. No stored secret may still be encrypted under it. All that was signed with it becomes
    invalid."""
    matches = [secret_key for secret_key in _keys() if short_fingerprint(secret_key) == key]
    if not matches:
        raise WrongValue(f"there is no key {key!r}; `{COMMAND_LINE} secrets status` shows all keys")
    with _one_line():
        check_retirable(parts, matches[0])
        if not yes:
            echo(WARNING.format(key=key), err=True)
            click.confirm("Retire this key?", abort=True, err=True)
        is_gone = retire(parts, matches[0])
    line = f"retired {key}" if is_gone else f"{key} can be removed from SECRET_KEY_FALLBACKS of all processes"
    return CommandResult(line, {"key": key, "retired": is_gone})
