"""gunicorn's master process: each look at its processes, once a second, is a sign of life of its own."""

from __future__ import annotations

from typing import Any

from app.infrastructure import signs_of_life


def on_starting(master: Any) -> None:
    """gunicorn's hook. gunicorn tells systemd itself that it is ready; it has no hook for the turns of its loop."""
    look = master.murder_workers

    def look_and_report() -> None:
        look()
        signs_of_life.report()

    master.murder_workers = look_and_report
