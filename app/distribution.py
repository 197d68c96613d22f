"""The package itself: its version, its folder, whether that is a checkout or an installed wheel, and how its processes
are started from either (docs/install.md)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

NAME = "transactional-messaging-service"
VERSION = "1.1.0"
"""The version of a release: of the package, the API's description, the image and the client library
(docs/stability.md#versions)."""

FOLDER = Path(__file__).parents[1]
"""Has `app`, `blueprints`, `jobs`, `schemas`, `wsgi.py` and `gunicorn.conf.py`: a checkout, or a site-packages."""
INSTALLED = any(FOLDER.glob(f"{NAME.replace('-', '_')}-*.dist-info"))
"""Whether the modules come from a wheel. A checkout is used in place, also when it is installed as editable."""
COMMAND_LINE = "tms" if INSTALLED else "flask --app wsgi"
"""What the operator types in front of a command (docs/cli.md)."""

DATA_DIR_OF_ROOT = Path("/var/lib/tms")


def default_data_dir() -> Path:
    """The `DATA_DIR` of a process that names none: in a checkout a folder of it; of an installed service one that does
    not depend on the folder in which a command is typed."""
    if not INSTALLED:
        return Path("var")
    if os.getuid() == 0:
        return DATA_DIR_OF_ROOT
    named = os.environ.get("XDG_DATA_HOME", "")
    home = named if os.path.isabs(named) else os.path.expanduser("~/.local/share")
    return Path(home, "tms") if os.path.isabs(home) else Path("var")  # a user without a home


def python_command(*module: str) -> list[str]:
    """The command line of a module with its arguments."""
    return [sys.executable, "-m", *module]


def gunicorn_command(*options: str) -> list[str]:
    """The command line of the API, configured wherever it is started; `options` override the configuration."""
    return python_command("gunicorn", "--config", str(FOLDER / "gunicorn.conf.py"), *options, "wsgi:application")


def process_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that finds the modules of this package in any folder, and does not import files of
    that folder in their place."""
    if INSTALLED:
        return {**environ, "PYTHONSAFEPATH": "1"}
    path = [str(FOLDER), *filter(None, [environ.get("PYTHONPATH")])]
    return {**environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(path)}
