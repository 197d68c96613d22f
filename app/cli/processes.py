"""`tms run`, `tms web`, `tms worker`, `tms scheduler`: the processes of the service (docs/cli.md#calling-a-command).

Each replaces the `tms` process, which so keeps its id and gets no signal that the service does not get.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn

import click

from app.cli import WholeSentence
from app.distribution import gunicorn_command, process_environment, python_command
from app.infrastructure import replacing


class WrongArgument(click.ClickException):
    """An argument that cannot be used, reported in one line as by the other commands."""

    exit_code = 2


class ProcessCommand(WholeSentence):
    """A command that becomes a process. It loads neither the application nor the database for that."""

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        """Parses the arguments."""
        try:
            return super().make_context(*args, **options)
        except click.UsageError as error:
            raise WrongArgument(error.format_message()) from None


def become(command: list[str]) -> NoReturn:
    """Replaces this process by that command."""
    environment = replacing.remember_command(process_environment(os.environ))
    os.execve(command[0], command, environment)  # noqa: S606 - the commands are ours


@click.command("run", cls=ProcessCommand)
def run() -> None:
    """Run the whole service in the foreground.

    Creates or migrates the database and starts Redis (unless REDIS_URL names one), the API, workers and scheduler.
    """
    become(python_command("app.launcher"))


@click.command("web", cls=ProcessCommand)
@click.argument("gunicorn_options", metavar="[-- OPTIONS OF GUNICORN]", nargs=-1, type=click.UNPROCESSED)
def web(gunicorn_options: tuple[str, ...]) -> None:
    """Run the API under gunicorn, at HOST and PORT.

    Options after `--` go to gunicorn and override the configuration: `tms web -- --bind unix:/run/tms/api.sock`.
    """
    become(gunicorn_command(*gunicorn_options))


@click.command("worker", cls=ProcessCommand)
@click.argument("queues", metavar="[QUEUE...]", nargs=-1)
def worker(queues: tuple[str, ...]) -> None:
    """Run a worker for the given queues: sends, webhooks, maintenance, automations. Default: all queues."""
    become(python_command("jobs.worker", *queues))


@click.command("scheduler", cls=ProcessCommand)
def scheduler() -> None:
    """Run the scheduler, which wakes the workers."""
    become(python_command("jobs.schedule"))


@click.command("submission", cls=ProcessCommand)
def submission() -> None:
    """Run the listener for applications that send by SMTP, at SUBMISSION_LISTEN."""
    become(python_command("jobs.submission"))


PROCESSES: dict[str, click.Command] = {
    "run": run,
    "web": web,
    "worker": worker,
    "scheduler": scheduler,
    "submission": submission,
}
"""Name of a kind of process -> its command. The listener for inbound mail is `inbound` without a subcommand."""
