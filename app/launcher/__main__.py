"""`python -m app.launcher`: begins the API's process, which imports its modules while this one imports the rest of the
launcher (docs/architecture.md#the-start)."""

from __future__ import annotations

import gc
import importlib
import os

from app.distribution import gunicorn_command
from app.infrastructure import memory
from app.infrastructure.start_signal import StartSignal
from app.launcher.supervisor import Child, Supervisor


def main() -> int:
    """Returns the exit status: 0 when asked to stop, 2 for an invalid setting, else 1."""
    supervisor = Supervisor()
    supervisor.catch_signals()
    signal = StartSignal()
    api = Child(
        "api",
        gunicorn_command(),
        {**os.environ, **signal.environment},
        essential=True,
        inherited=(signal.waiting_end,),
    )
    try:
        supervisor.start(api)
        signal.begun()
        gc.disable()  # nothing of what is imported becomes garbage
        service = importlib.import_module("app.launcher.service")
        memory.tune()
        status: int = service.run(supervisor, api, signal)
        return status
    finally:
        supervisor.stop()


if __name__ == "__main__":
    raise SystemExit(main())
