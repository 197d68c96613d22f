"""The relay hooks of a process: the built-in ones that are configured, then those of installed packages.

A package provides a hook as an entry point of the group `tms.relay_hooks`: its name is the part of the path after
`/inbound/`, and its object is called with the settings and returns a `RelayHook`, or None if it is not configured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points

from app.inbound.hooks.base import RelayHook
from app.inbound.hooks.mailgun import MailgunHook
from app.inbound.hooks.postmark import PostmarkHook
from app.inbound.hooks.sendgrid import SendgridHook
from app.inbound.hooks.ses import SesHook
from app.inbound.hooks.sparkpost import SparkpostHook
from app.settings import Settings

ENTRY_POINT_GROUP = "tms.relay_hooks"
RELAY_HOOKS = "tms.relay_hooks"
"""The key of the process's hooks among the extensions of the application."""

MakeHook = Callable[[Settings], RelayHook | None]

BUILT_IN_HOOKS: Mapping[str, MakeHook] = {
    "mailgun": MailgunHook.of,
    "postmark": PostmarkHook.of,
    "sendgrid": SendgridHook.of,
    "ses": SesHook.of,
    "sparkpost": SparkpostHook.of,
}
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,49}")


class RelayHookError(Exception):
    """A hook of a package that cannot be used; the service does not start with one."""


def relay_hooks(settings: Settings) -> dict[str, RelayHook]:
    """The configured hooks by name. Raises `RelayHookError`."""
    makers = dict(BUILT_IN_HOOKS)
    for point in entry_points(group=ENTRY_POINT_GROUP):
        if point.name in makers or not _NAME.fullmatch(point.name):
            raise RelayHookError(f"{point.name!r} ({point.value}) cannot be the name of a relay hook, or is taken")
        try:
            makers[point.name] = point.load()
        except (ImportError, AttributeError) as error:
            raise RelayHookError(f"the relay hook {point.name} ({point.value}) cannot be loaded: {error}") from error
    made = {name: make(settings) for name, make in makers.items()}
    return {name: hook for name, hook in made.items() if hook is not None}
