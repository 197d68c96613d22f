"""`flask secrets`: the SECRET_KEYs of the installation, and what is encrypted under each."""

from __future__ import annotations

import click

from app.cli.base import Group, Row, Unavailable, WrongValue, echo, json_option, print_done, print_rows
from app.cli.progress import progress
from app.distribution import COMMAND_LINE
from app.http.context import services
from app.maintenance.findings import counted
from app.maintenance.stored_secrets import (
    NotPossible,
    Progress,
    StoredSecrets,
    check_retirable,
    count_secrets,
    encrypted_columns,
    processes_by_key,
    retire,
    rotate,
)
from app.secret_keys import SecretKeys, generated_keys, short_fingerprint

group = Group("secrets", help="SECRET_KEY and its fallbacks, by their fingerprints.")
UNKNOWN = "unknown"
WARNING = """\
Everything that was made under the key {key} becomes invalid, and stays so:
- links and opt-out links in mails that were sent, and the addresses to which their bounces come
- addresses for reports in the DNS of sending domains, and the Kannel URL, unless you have renewed them
- backups that were made while it was in use, unless they contain it (they do by default)
- searches by address in entries of the audit log that were made while it was in use
- idempotency keys of requests with secret values: those that are repeated get a conflict\
"""


def _keys() -> SecretKeys:
    """With the one that was generated last in front."""
    settings = services().settings
    generated = generated_keys(settings.data_dir)
    known = settings.secret_keys
    return tuple(dict.fromkeys((*generated, *known))) if settings.secret_key in generated else known


def _source(key: str) -> str:
    settings = services().settings
    if key == settings.secret_key and key not in generated_keys(settings.data_dir):
        return "SECRET_KEY"
    return "SECRET_KEY_FALLBACKS" if key in settings.secret_key_fallbacks else "DATA_DIR"


def _rows(keys: SecretKeys, stored: StoredSecrets) -> list[Row]:
    """A row for each key, and one for what none of them decrypts, if there is anything."""
    tables = list(dict.fromkeys(str(column.table.name) for column in encrypted_columns()))
    signing = [known[:1] for _, known in processes_by_key(services().database)]
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
        rows.append({"key": UNKNOWN, "use": "-", "from": "-", "signing_processes": 0, **counts})
    return rows


@group.command("status")
@json_option
def status(as_json: bool) -> None:
    """Show the keys, which processes sign with each, and how many stored secrets are encrypted under each."""
    keys = _keys()
    print_rows(_rows(keys, count_secrets(services().database, keys)), as_json)


@group.command("rotate")
@json_option
def rotate_(as_json: bool) -> None:
    """Encrypt all stored secrets under SECRET_KEY, after replacing it by a new one where it was generated."""
    try:
        with progress("encrypting", None) as advance:
            done = rotate(services(), Progress(lambda line: echo(line, err=True), advance))
    except NotPossible as error:
        raise WrongValue(str(error)) from None
    except OSError as error:
        raise Unavailable(f"the keys in DATA_DIR cannot be replaced: {error.strerror}") from None
    rows = _rows(_keys(), done.stored)
    facts = {"key": short_fingerprint(done.key), "new": done.is_new, "encrypted": done.written, "keys": rows}
    what = "a new key" if done.is_new else "SECRET_KEY"
    written = counted(done.written, "stored secret")
    print_done(f"encrypted {written} under {what}, {short_fingerprint(done.key)}", facts, as_json)
    if unreadable := done.stored.unreadable.total():
        left = counted(unreadable, "stored secret")
        echo(f"left as they are, encrypted under a key that is not listed: {left}", err=True)
    if not as_json:
        echo("the keys before stay valid for what was made under them; processes sign with the new one once restarted")


@group.command("retire")
@click.argument("key", metavar="FINGERPRINT")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def retire_(key: str, yes: bool, as_json: bool) -> None:
    """Forget a key of before: what was made under it becomes invalid."""
    found = [one for one in _keys() if short_fingerprint(one) == key]
    if not found:
        raise WrongValue(f"there is no key {key!r}; `{COMMAND_LINE} secrets status` shows them")
    try:
        check_retirable(services(), found[0])
        if not yes:
            echo(WARNING.format(key=key), err=True)
            click.confirm("Retire it?", abort=True, err=True)
        is_gone = retire(services(), found[0])
    except NotPossible as error:
        raise WrongValue(str(error)) from None
    except OSError as error:
        raise Unavailable(f"the keys in DATA_DIR cannot be replaced: {error.strerror}") from None
    line = f"retired {key}" if is_gone else f"{key} can be removed from SECRET_KEY_FALLBACKS of all processes"
    print_done(line, {"key": key, "retired": is_gone}, as_json)
