"""The start signal: a process is begun before the service is ready for it, and has imported its modules by then.

Imports are most of the time until the API's first answer. The launcher begins the API's process first of all, imports
its own modules at the same time, and gives the signal once the database is migrated. The signal is a line through a
pipe: the environment, which depends on what the database contains.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping

VARIABLE = "START_SIGNAL"
"""The environment variable with the number of the pipe's end."""


class StartSignal:
    """The launcher's end of the pipe. If the launcher ends without the signal, so does the process that waits."""

    def __init__(self) -> None:
        self.waiting_end, self._giving_end = os.pipe()

    @property
    def environment(self) -> dict[str, str]:
        """What the process that waits needs in its environment; it inherits the file `waiting_end`."""
        return {VARIABLE: str(self.waiting_end)}

    def begun(self) -> None:
        """To be called once the process has its end of the pipe."""
        os.close(self.waiting_end)

    def give(self, environment: Mapping[str, str]) -> None:
        """Lets the process go on in this environment."""
        with contextlib.suppress(BrokenPipeError), os.fdopen(self._giving_end, "w") as pipe:
            pipe.write(json.dumps(dict(environment)) + "\n")


def is_expected() -> bool:
    """Whether this process was begun to wait for a signal."""
    return VARIABLE in os.environ


_given: dict[str, str] = {}
"""What the signal of this process has added to its environment."""


def wait() -> None:
    """Waits for the signal, which is expected, and takes over its environment."""
    with os.fdopen(int(os.environ.pop(VARIABLE))) as pipe:
        line = pipe.readline()
    if not line:
        sys.exit(0)  # the launcher has refused to start, and has said why
    _given.update(json.loads(line))
    os.environ.update(_given)


def after_signal(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment of before the signal, such as the one that gunicorn keeps for its next code, as it is after it:
    there is no other signal to wait for."""
    return {name: value for name, value in {**environment, **_given}.items() if name != VARIABLE}
