"""`flask domains rotate`, `import-key` and `remove-key`: the keys that sign mail of a domain."""

from __future__ import annotations

from typing import TextIO

import click
from flask.cli import with_appcontext

from app.accounts.domains import find_domain
from app.accounts.find import find_account
from app.accounts.signing_keys import import_key, remove_key, rotate_keys
from app.cli.base import Command, account_option, json_option, print_done
from app.cli.domain_rows import domain_rows, print_domain
from app.distribution import COMMAND_LINE
from app.http.context import services

MAX_CHARACTERS = 100_000
"""Of a file that may be a key."""
selector_option = click.option(
    "--selector",
    help="The selector of the new RSA key; that of the Ed25519 key ends in -ed25519. Default: a random one.",
)


def _text(file: TextIO) -> str:
    """The text of the file, as far as it can be a key."""
    try:
        return file.read(MAX_CHARACTERS)
    except UnicodeDecodeError:
        return ""


@click.command("rotate", cls=Command, epilog=f"They sign once `{COMMAND_LINE} domains verify` finds their records.")
@click.argument("name")
@selector_option
@account_option
@json_option
@with_appcontext
def rotate(name: str, selector: str | None, account: str | None, as_json: bool) -> None:
    """Make new keys beside those that sign."""
    parts = services()
    with parts.database.write() as transaction:
        domain = find_domain(transaction, find_account(transaction, account).id, name)
        rotate_keys(transaction, domain, parts.settings.secret_key, selector)
        (row,) = domain_rows(transaction, [domain])
    print_domain(row, as_json)


@click.command("import-key", cls=Command, epilog=f"It signs once `{COMMAND_LINE} domains verify` finds its record.")
@click.argument("name")
@click.option("--selector", required=True, help="The selector under which its public key is published.")
@click.option(
    "--key", "file", type=click.File("r"), required=True, help="The private key as PEM; - for standard input."
)
@account_option
@json_option
@with_appcontext
def import_key_(name: str, selector: str, file: TextIO, account: str | None, as_json: bool) -> None:
    """Import a private key of your own."""
    parts = services()
    pem = _text(file)
    with parts.database.write() as transaction:
        domain = find_domain(transaction, find_account(transaction, account).id, name)
        import_key(transaction, domain, parts.settings.secret_key, selector, pem)
        (row,) = domain_rows(transaction, [domain])
    print_domain(row, as_json)


@click.command("remove-key", cls=Command)
@click.argument("name")
@click.argument("selector")
@account_option
@json_option
@with_appcontext
def remove_key_(name: str, selector: str, account: str | None, as_json: bool) -> None:
    """Remove a key that does not sign, or one of several that do."""
    with services().database.write() as transaction:
        domain = find_domain(transaction, find_account(transaction, account).id, name)
        remove_key(transaction, domain, selector)
    print_done(f"removed the key {selector} of {name}", {"name": name, "selector": selector, "removed": True}, as_json)


COMMANDS = (rotate, import_key_, remove_key_)
