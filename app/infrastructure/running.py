"""The running processes of the service on this machine with this data folder, and their databases: a command that uses
another database warns of it.
"""

from __future__ import annotations

import contextlib
import logging

from app.db.url import without_credentials
from app.infrastructure import signs_of_life
from app.infrastructure.liveness import SUFFIX, create_locked, dead_processes, live_processes, new_process_name
from app.settings import Settings

logger = logging.getLogger(__name__)


def register(settings: Settings) -> None:
    """Registers this process until it ends, by the file of its signs of life. A failure costs only that warning."""
    folder = settings.data_dir / "processes"
    try:
        name = f"{new_process_name()}{SUFFIX}"
        signs_of_life.keep(create_locked(folder / name, without_credentials(settings.database_url).encode()))
        with dead_processes(folder):
            pass  # removes the files of dead processes
    except OSError as error:
        logger.warning("this process cannot be registered in the data folder: %s", error)


def databases(settings: Settings) -> set[str]:
    """The databases of the running processes."""
    found = set()
    with contextlib.suppress(OSError):
        for path in live_processes(settings.data_dir / "processes"):
            found.add(path.read_text("utf-8", "replace"))
    return found
