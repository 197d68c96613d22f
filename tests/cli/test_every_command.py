"""What is the same for every command, proven over all that there are (docs/cli.md)."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from app.cli import NOUNS, group_of
from app.cli.base import Decorator, account_option, accounts_option
from tests.cli.conftest import Cli
from tests.support.commands import Words, commands_of
from tests.support.tenants import Tenant, unique

UNKNOWN, NUMBER = "nobody.example", "999999999"
"""What nothing has: a name, and an id."""
WORDS = {"ADDRESS": f"ann@{UNKNOWN}", "UUID | FILTER...": "state=failed", "YYYY-MM": "2020-01"}
"""What is called so in the usage -> an example."""
DEFINITION = """
{name: A, kind: advanced, list: L, trigger: REST API Contact Created, steps: [{name: end, stop: true}]}
"""
NAME = rf"'?((ann@)?{re.escape(UNKNOWN)}|{NUMBER})'?"
NOTHING = re.compile(rf"(\w+: )?((the account has|[Tt]here is) no [a-z ]+ {NAME}\.?|nothing is stored of 2020-01)")
"""What is said of a name that nothing has."""
COMMANDS = [command for noun in NOUNS for command in commands_of(group_of(noun), noun)]


def has(command: click.Command, *options: str) -> bool:
    return any(option in param.opts for param in command.params for option in options)


def help_of_account(command: click.Command) -> str:
    """What the help says of --account; nothing if there is no such option."""
    return "".join(
        param.help or "" for param in command.params if isinstance(param, click.Option) and param.name == "account"
    )


def shared_help(option: Decorator) -> str:
    """The help of an option that several commands have."""
    return help_of_account(click.command("any")(option(lambda: None)))


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A file that every command which reads one can read."""
    path = tmp_path / "file.yaml"
    path.write_text(DEFINITION)
    return str(path)


def call(path: Words, command: click.Command, file: str) -> Words:
    """The command with an example of all that it requires; it does not ask."""
    words = list(path)
    for param in command.params:
        if param.required:
            words += (
                [example(param, file)] if isinstance(param, click.Argument) else [param.opts[0], example(param, file)]
            )
    return (*words, "--yes") if has(command, "--yes") else tuple(words)


def example(parameter: click.Parameter, file: str) -> str:
    match parameter.type:
        case click.Choice(choices=choices):
            return str(choices[0])
        case click.Path() | click.File():
            return file
        case click.types.IntParamType():
            return NUMBER
    metavar = parameter.make_metavar(click.Context(click.Command("")))
    return next((word for name, word in WORDS.items() if name in metavar), UNKNOWN)


def test_every_command_has_a_help_text_and_prints_json(bare: Cli) -> None:
    """`--json` works everywhere except in `db generate`, which is for developers of this project."""
    for path, command in COMMANDS:
        assert command.help, path
        assert command.help.partition("\n")[0][:30] in bare.text(*path, "--help")
        assert has(command, "--json") == (path != ("db", "generate")), path


def test_every_noun_has_list_and_show() -> None:
    """Nouns to which the rule does not apply are left out, such as `secrets`, whose values are never shown, and
    `console`, which has sessions."""
    for noun in NOUNS:
        if noun not in ("automations", "console", "db", "inbound", "secrets"):
            assert {"list", "show"} <= group_of(noun).commands.keys(), noun


def test_every_command_refuses_an_unknown_account(bare: Cli, file: str) -> None:
    for path, command in COMMANDS:
        if help_of_account(command) and path != ("transports", "routes", "update"):
            refused = bare.refused(*call(path, command, file), "--account", "nobody")
            assert refused == "there is no account 'nobody'", path


def test_every_command_of_one_account_asks_which_of_several(
    bare: Cli, tenant: Tenant, other_tenant: Tenant, file: str
) -> None:
    commands_of_one_account = [
        path_and_command
        for path_and_command in COMMANDS
        if "Optional if there is only one" in help_of_account(path_and_command[1])
    ]
    assert len(commands_of_one_account) > 50
    for path, command in commands_of_one_account:
        refused = bare.refused(*call(path, command, file))
        assert refused.startswith("there are several accounts; choose one with --account: "), path


SHOWS_SOMETHING: dict[Words, str] = {
    ("audit", "list"): "the creation of the account",
    ("audit", "export"): "the same",
    ("sends", "explain"): "says that there is no message",
    **{("holds", word, noun): "counts" for word in ("release", "drop") for noun in ("messages", "runs", "events")},
}
"""Commands of all accounts that do not show "none" for an account with nothing in it."""


def test_every_command_of_all_accounts_shows_none_of_an_account_with_nothing(bare: Cli, file: str) -> None:
    name = unique("empty")
    bare.text("accounts", "create", name)
    shared = shared_help(accounts_option)
    outputs = {path: call(path, command, file) for path, command in COMMANDS if help_of_account(command) == shared}
    assert outputs.keys() >= SHOWS_SOMETHING.keys()
    for path in outputs.keys() - SHOWS_SOMETHING.keys():
        assert bare.text(*outputs[path], "--account", name) == "none\n", path
        assert bare.json(*outputs[path], "--account", name) == [], path


def test_every_command_refuses_a_name_that_nothing_has(bare: Cli, tenant: Tenant, file: str) -> None:
    commands_with_name = [
        path_and_command for path_and_command in COMMANDS if path_and_command[1].params[0].name == "named"
    ]
    assert len(commands_with_name) > 50
    shared = shared_help(account_option)
    said = {}
    for path, command in commands_with_name:
        named = ("--account", tenant.name) if help_of_account(command) == shared else ()
        said[path] = bare.refused(*call(path, command, file), *named)
    assert {path: refused for path, refused in said.items() if not NOTHING.fullmatch(refused)} == {}
