"""An act has the same verb in the console as on the command line (docs/architecture.md#words)."""

from __future__ import annotations

import re

import click

from app.console.bulk_actions import ACTION_WORDS
from app.senders.resource import RESOURCE
from app.tms import tms
from tests.support.commands import commands_of
from tests.support.sources import ROOT

PAGES = ROOT / "app" / "templates" / "console"
VERBS = {
    "automations pause": ("automation.html", "Pause"),
    "automations resume": ("automation.html", "Resume"),
    "automations run cancel": ("automation_run.html", "Cancel run"),
    "domains rotate": ("domain.html", "Rotate keys"),
    "domains verify": ("domain.html", "Verify now"),
    "messages restore": ("message_version.html", "Restore this version"),
    "sends bulk-actions cancel": ("bulk_action.html", "Cancel action"),
    "sends cancel": ("message.html", "Cancel message"),
    "sends pause": ("queue_parts.html", "Pause"),
    "sends resume": ("queue_parts.html", "Resume"),
    "sends retry": ("message.html", "Retry"),
    "suppressions resubscribe": ("message.html", "Resubscribe address"),
    "suppressions unblock": ("message.html", "Unblock address"),
    "test-account refresh": ("account.html", "Refresh the copies"),
    "webhooks redeliver": ("delivery.html", "Redeliver these events"),
    "webhooks replay": ("webhook.html", "Replay"),
}
"""Command -> the page with the button that does the same, and what the button says."""


def test_a_button_begins_with_the_verb_of_its_command() -> None:
    commands = {" ".join(words) for words, _ in commands_of(tms)}
    assert set(VERBS) <= commands
    differing = {command: button for command, (_, button) in VERBS.items() if _verb(command) != button.split()[0]}
    assert differing == {}


def test_the_buttons_are_on_their_pages() -> None:
    missing = {
        command: (page, button)
        for command, (page, button) in VERBS.items()
        if not re.search(rf"[>']{re.escape(button)}[<']", (PAGES / page).read_text("utf-8"))
    }
    assert missing == {}


def test_bulk_actions_begin_with_the_verb_of_their_command() -> None:
    """`holds drop messages --as sent` is another action than with `--as failed`."""
    assert {words.does.split()[0] for words in ACTION_WORDS.values()} == {
        *("Retry", "Cancel", "Release", "Drop", "Unblock"),
    }


def test_a_sender_is_approved_and_withdrawn_by_command_and_console() -> None:
    help_texts = {words[-1]: str(command.help) for words, command in commands_of(_senders())}
    for action, button in RESOURCE.buttons.items():
        assert help_texts[action].startswith(button)


def _verb(command: str) -> str:
    return command.rsplit(maxsplit=1)[-1].capitalize()


def _senders() -> click.Group:
    group = tms.get_command(click.Context(tms), "senders")
    assert isinstance(group, click.Group)
    return group
