"""`tms`, the command of the installed package: the command line of `flask --app wsgi`, and the processes of the service
(docs/cli.md)."""

from __future__ import annotations

import gc

import click
from flask import Flask
from flask.cli import ScriptInfo

from app import create_app
from app.cli import SECTIONS, LazyCommands
from app.cli.processes import PROCESSES, WrongArgument
from app.distribution import VERSION
from app.infrastructure import memory
from app.settings import SettingsError


class Tms(LazyCommands):
    """Imports a command when it is used, and loads the application when the command needs it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in alphabetical order."""
        return sorted((*super().list_commands(ctx), *PROCESSES))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command or group of that name, or None."""
        return PROCESSES.get(cmd_name) or super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command. An unknown one is reported in one line."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise WrongArgument(f"{error.format_message()} `tms --help` lists the commands.") from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the sections of commands, each command with its first sentence."""
        width = max(map(len, self.list_commands(ctx)))
        for title, names in SECTIONS.items():
            commands = ((name, self.get_command(ctx, name)) for name in names)
            rows = [(f"{name:<{width}}", command.get_short_help_str()) for name, command in commands if command]
            with formatter.section(title):
                formatter.write_dl(rows)


@click.group("tms", cls=Tms)
@click.version_option(VERSION, message="%(prog)s %(version)s")
def tms() -> None:
    """The transactional messaging service: its processes, and the commands of its operator.

    Settings are environment variables. All processes and commands need the same settings.
    """


def main() -> None:
    """The entry point."""
    gc.disable()  # until the application is loaded: nothing of what is loaded becomes garbage
    tms(prog_name="tms", obj=script_info())


def script_info() -> ScriptInfo:
    """What the commands of Flask take the application from, once they need it."""
    return ScriptInfo(create_app=_application, set_debug_flag=False)


def _application() -> Flask:
    try:
        application = create_app()
    except SettingsError as error:
        raise WrongArgument(str(error)) from None
    memory.tune()
    return application


if __name__ == "__main__":
    main()
