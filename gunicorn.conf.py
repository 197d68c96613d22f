"""gunicorn, configured from the settings of the service; gunicorn reads this file automatically."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading

# Nothing of what is loaded becomes garbage, and looking through it again and again takes a seventh of the time until
# the first answer. `on_starting` is called once the application is loaded.
gc.disable()

# A master process of an earlier release, started by `python -m gunicorn`, starts this one as a script of that package,
# whose modules would hide those of Python that have the same names (`http`).
sys.path[:] = [each for each in sys.path if not os.path.isfile(os.path.join(each, "arbiter.py"))]
if os.getcwd() != os.path.dirname(os.path.realpath(__file__)):
    # gunicorn has put the current folder first, whose files may have the names of our modules: it comes last.
    sys.path.sort(key=lambda folder: os.path.realpath(folder or ".") == os.getcwd())

from gunicorn.app import base
from gunicorn.config import Config
from gunicorn.glogging import Logger
from gunicorn.http import message
from sqlalchemy.exc import SQLAlchemyError

from app.accounts.auth import KeyUses
from app.db.database import Database
from app.db.outage import reason
from app.http import plugins
from app.http.context import EXTENSION, extension_name
from app.http.server import worker
from app.http.server.master import Master
from app.http.server.request import MAX_REQUEST_LINE
from app.infrastructure import liveness, logs, memory, metrics, replacing, start_signal, tracing
from app.infrastructure.heartbeat import Heartbeat
from app.infrastructure.installation_key import ForeignSecretKey, check_secret_key
from app.infrastructure.start_checks import StartRefused, check_start
from app.infrastructure.startup_report import log_startup
from app.settings import SettingsError, from_environment

if start_signal.is_expected():
    list(plugins.discover())  # imports most of what the application will need
    start_signal.wait()

try:
    settings = from_environment()
except SettingsError as error:
    print(f"cannot start: {error}", file=sys.stderr)
    raise SystemExit(2) from None

database, is_checked = Database(settings.database_url), threading.Event()
try:
    check_start(database, settings)
    is_checked.set()
except StartRefused as error:
    print(f"cannot start: {error}", file=sys.stderr)
    raise SystemExit(1) from None
except SQLAlchemyError as error:
    print(f"starting without the database, /readyz shows when it is available: {reason(error)}", file=sys.stderr)
finally:
    database.close()  # before the processes are forked, which must not share a connection


class ServiceLogger(Logger):  # type: ignore[misc]  # gunicorn has no types
    """Logs gunicorn's records like all others. The application logs the requests itself."""

    def setup(self, cfg: Config) -> None:
        """Called at the start of the master process."""
        self.cfg = cfg
        logs.configure(settings)
        for logger in (self.error_log, self.access_log):
            logger.handlers = []
            logger.propagate = True
        self.error_log.setLevel(logging.INFO)


def on_starting(_master: object) -> None:
    """gunicorn's hook: the application is loaded, and nothing listens yet."""
    memory.tune()
    replacing.end_check()
    log_startup(settings, role="web")


def post_worker_init(process: worker.BalancedWorker) -> None:
    """gunicorn's hook: a process of the API is ready."""
    liveness.register_answering(settings.data_dir)
    tracing.start(settings, "web")
    services = getattr(process.wsgi, "extensions", {}).get(EXTENSION)
    if services is None:  # an application for comparison, as the benchmark serves
        metrics.share(settings)
        return
    metrics.share(settings, services.database)
    uses: KeyUses = process.wsgi.extensions[extension_name(KeyUses)]

    def write_also(at_end: bool) -> None:
        _check_late(services.database)
        uses.write_if_due(at_end)

    process.heartbeat = Heartbeat(services.database, ["api"], lambda: process.turned, write_also, settings=settings)
    process.heartbeat.start()


def _check_late(database: Database) -> None:
    """Checks SECRET_KEY as soon as the database answers, if it was away at the start, and stops the API for another
    key."""
    if not is_checked.is_set():
        try:
            check_secret_key(database, settings.secret_keys)
        except ForeignSecretKey as error:
            logging.getLogger("app.http.server").error("the API stops: %s", error)
            os.kill(os.getppid(), signal.SIGTERM)
        is_checked.set()


def worker_exit(_server: object, process: worker.BalancedWorker) -> None:
    """gunicorn's hook: a process of the API ends."""
    heartbeat = getattr(process, "heartbeat", None)  # gunicorn's master calls it, too, for one that has disappeared
    if heartbeat is not None:
        heartbeat.stop()


# gunicorn makes the master process of this class; it has no setting for it.
base.Arbiter = Master
bind = f"[{settings.host}]:{settings.port}" if ":" in settings.host else f"{settings.host}:{settings.port}"
workers = settings.web_workers
worker_class = "app.http.server.worker.BalancedWorker"
worker_connections = settings.web_connections
threads = settings.web_threads
child_exit = worker.child_exit
# Loaded once, before the processes are forked: they start faster and share its memory. It opens no connection.
preload_app = True
# Seconds for requests in progress at a stop; the launcher waits for 7 seconds.
graceful_timeout = 5
timeout = 60
# Raw UTF-8 is three times as long when the parser gets it.
message.MAX_REQUEST_LINE = limit_request_line = 3 * MAX_REQUEST_LINE
http_parser = "python"
# Only the application knows how many proxies are trusted (TRUSTED_PROXIES). gunicorn would trust these headers from
# anybody on the loopback address.
forwarded_allow_ips = ""
secure_scheme_headers: dict[str, str] = {}
forwarder_headers = ""
logger_class = ServiceLogger
accesslog = None
# The control socket has one path per user, so two services on one machine would conflict.
control_socket_disable = True
