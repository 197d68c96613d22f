"""The WSGI application, for gunicorn and for `flask --app wsgi`."""

import gc
import sys

from app import create_app
from app.infrastructure import memory
from app.settings import SettingsError

gc.disable()  # nothing of what is loaded becomes garbage
try:
    application = create_app()
except SettingsError as error:
    print(f"Error: {error}", file=sys.stderr)  # one clear line, as for every wrong value (docs/cli.md)
    sys.exit(2)
memory.tune()
