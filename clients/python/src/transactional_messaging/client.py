"""The entrance: a client with one key, and a part for each resource."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from transactional_messaging.automations import Automations
from transactional_messaging.caller import PREFIX, Caller
from transactional_messaging.contacts import Contacts
from transactional_messaging.groups import Groups
from transactional_messaging.inbox import Inbox
from transactional_messaging.lists import Lists
from transactional_messaging.management import Management
from transactional_messaging.messages import Messages
from transactional_messaging.retries import Retries
from transactional_messaging.root import Root
from transactional_messaging.sends import Sends
from transactional_messaging.suppressions import Suppressions
from transactional_messaging.tags import Tags
from transactional_messaging.transport import HttpTransport, Transport

KEY_VARIABLE = "TMS_KEY"
URL_VARIABLE = "TMS_URL"


class Client:
    """A client of the service. Make one and keep it: it reuses its connections, and threads may share it.

    Without `key` and `base_url` it takes the environment variables TMS_KEY and TMS_URL. `timeout` is in seconds, for
    connecting and for each answer.
    """

    def __init__(
        self,
        key: str | None = None,
        base_url: str | None = None,
        *,
        timeout: float | tuple[float, float] = (5.0, 30.0),
        retries: Retries | None = None,
        pool_size: int = 10,
        transport: Transport | None = None,
    ) -> None:
        if transport is None:
            timeouts = timeout if isinstance(timeout, tuple) else (timeout, timeout)
            url, token = base_of(_given(base_url, URL_VARIABLE, "base_url")), _given(key, KEY_VARIABLE, "key")
            transport = HttpTransport(url, token, timeouts, pool_size)
        caller = Caller(transport, retries if retries is not None else Retries())
        self._caller = caller
        self.root = Root(caller)
        self.lists = Lists(caller)
        self.contacts = Contacts(caller)
        self.messages = Messages(caller)
        self.sends = Sends(caller)
        self.groups = Groups(caller)
        self.tags = Tags(caller)
        self.automations = Automations(caller)
        self.inbox = Inbox(caller)
        self.suppressions = Suppressions(caller)
        self.management = Management(caller)

    def close(self) -> None:
        """Closes the connections; another request opens new ones."""
        self._caller.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _given(value: str | None, variable: str, parameter: str) -> str:
    found = value if value is not None else os.environ.get(variable, "")
    if not found:
        raise ValueError(f"Give {parameter}, or set {variable}.")
    return found


def base_of(url: str) -> str:
    """The address of the service without a slash at its end; `/v1` may be part of what is given."""
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"The address must begin with https:// or http://: {url!r}")
    return url.rstrip("/").removesuffix(PREFIX)
