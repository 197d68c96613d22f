"""The service as the launcher runs it: prepares, starts all processes, prints the screen and supervises the
processes."""

from __future__ import annotations

import http.client
import logging
import os
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from app.distribution import python_command
from app.infrastructure import logs
from app.infrastructure.start_signal import StartSignal
from app.infrastructure.startup_report import log_startup
from app.launcher import demo as demos
from app.launcher import embedded_redis, prepare
from app.launcher.children import Child
from app.launcher.demo import Demo
from app.launcher.embedded_redis import EmbeddedRedisError
from app.launcher.prepare import StartError
from app.launcher.screen import screen
from app.launcher.supervisor import Supervisor
from app.services import Services, make_services
from app.settings import Settings, SettingsError, from_environment, own_redis_url

logger = logging.getLogger("app.launcher")

POLL_SECONDS = 0.05
ORPHANS_END = 8.0
"""Seconds after which the processes of a killed launcher have ended: the API takes up to 5."""
IN_PYTHON = (
    "the embedded Redis is the one in Python, which is meant for development; in production install redis-server or "
    "valkey-server, or set REDIS_URL"
)
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not listened on
"""Wildcard address -> one at which the service can be reached."""


@dataclass(frozen=True, slots=True)
class Start:
    """What the steps of a start share."""

    settings: Settings
    supervisor: Supervisor
    environment: dict[str, str]
    api: Child
    """Begun, and waiting for the signal."""
    signal: StartSignal

    def python(self, name: str, *module: str) -> Child:
        """A process that runs a module with this Python."""
        return Child(name, python_command(*module), self.environment)


def run(supervisor: Supervisor, api: Child, signal: StartSignal) -> int:
    """Runs the service, whose API is begun and waits for the signal. Its processes have ended before the lock of the
    data folder does; the caller stops the API if the lock was not to be had.

    Returns the exit status: 0 when asked to stop, 2 for an invalid setting, else 1.
    """
    try:
        settings = from_environment()
        prepare.check_settings(settings)
        lock = prepare.lock_data_dir(settings.data_dir)
    except (SettingsError, StartError) as error:
        return _refuse(error)
    with closing(lock):
        logs.configure(settings)
        start = Start(settings, supervisor, dict(os.environ), api, signal)
        return _serve(start, ORPHANS_END if lock.predecessor_died else 0)


def _refuse(error: Exception) -> int:
    print(f"cannot start: {error}", file=sys.stderr)
    return error.status if isinstance(error, StartError) else 2 if isinstance(error, SettingsError) else 1


def _serve(start: Start, patience: float) -> int:
    """Starts all processes and stops them at the end. `patience` is in seconds, for a port that is still in use."""
    try:
        prepare.await_port(start.settings.host, start.settings.port, patience)
        if start.settings.inbound_listen:
            prepare.await_port(*start.settings.inbound_listen, patience, "INBOUND_LISTEN")
        redis = _start_redis(start)
        demo = _prepare_database(start)
        log_startup(start.settings)
        if redis == embedded_redis.PYTHON:
            logger.warning(IN_PYTHON)
        if demo and not start.environment.get("WEBHOOK_ALLOW_PRIVATE"):
            # The demo's receiver is on this machine and speaks plain http.
            start.environment["WEBHOOK_ALLOW_PRIVATE"] = "on"
        _start_api(start)
        if not start.supervisor.stop_requested:
            _start_workers(start)
            _start_receiver(start, demo)
            _print_screen(start, demo)
        return start.supervisor.watch()
    except (SettingsError, StartError, EmbeddedRedisError) as error:
        return _refuse(error)
    finally:
        start.supervisor.stop()


def _start_redis(start: Start) -> str | None:
    """Starts the embedded Redis and returns its kind; None if REDIS_URL names another."""
    data_dir = start.settings.data_dir
    if start.settings.redis_url != own_redis_url(data_dir):
        return None
    kind, _ = embedded_redis.choose(start.settings.embedded_redis)
    redis = Child("redis", embedded_redis.command(data_dir, kind), start.environment)
    start.supervisor.start(redis, first=True)
    embedded_redis.wait_until_ready(data_dir, lambda: redis.alive)
    return kind


def _prepare_database(start: Start) -> Demo | None:
    """Migrates the database, and seeds it on the first start. Returns the demo if the database contains it."""
    prepare.migrate_database(start.settings)
    demo = demos.read(start.settings)
    services = make_services(start.settings)
    try:
        if prepare.is_first_start(services):
            _seed(services, demo)
        if start.settings.exposed and (count := demos.replace_published_keys(services, demo)):
            logger.warning(
                "others can reach this service, so the %d published keys of the demo were replaced by random ones: %s",
                count,
                demos.kept_keys(start.settings),
            )
        return demos.loaded(services, demo)
    finally:
        _close(services)


def _seed(services: Services, demo: Demo) -> None:
    if services.settings.seed:
        prepare.seed(services, Path(services.settings.seed), {})
        return
    with_receiver = replace(services, settings=replace(services.settings, webhook_allow_private=True))
    prepare.seed(with_receiver, demos.SEED, demo.substitutions)


def _close(services: Services) -> None:
    """No connection may be open when a process is forked from this one."""
    services.database.close()
    services.redis.close()


def _start_api(start: Start) -> None:
    """Lets the API go on and waits until it answers, so that the workers' start does not delay the first answer."""
    start.signal.give(start.environment)
    start.api.environment, start.api.inherited = start.environment, ()  # of its next starts
    while not (start.supervisor.stop_requested or _answers(start.settings)):
        if not start.api.alive:
            raise StartError("the API server has ended; see its last lines for the reason")
        start.supervisor.wait(POLL_SECONDS)


def _answers(settings: Settings) -> bool:
    connection = http.client.HTTPConnection(ANYWHERE.get(settings.host, settings.host), settings.port, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _start_workers(start: Start) -> None:
    """Sends have their own processes, so that neither a slow webhook receiver nor a large automation delays a
    message."""
    for number in range(1, start.settings.send_workers + 1):
        start.supervisor.start(start.python(f"sends-{number}", "jobs.worker", "sends"))
    start.supervisor.start(start.python("webhooks", "jobs.worker", "webhooks", "maintenance"))
    start.supervisor.start(start.python("automations", "jobs.worker", "automations"))
    start.supervisor.start(start.python("schedule", "jobs.schedule"))
    if start.settings.inbound_listen:
        start.supervisor.start(start.python("inbound", "jobs.inbound"))


def _start_receiver(start: Start, demo: Demo | None) -> None:
    """Starts the receiver that prints the demo's events. Nothing depends on it, so it may be missing if its port is in
    use."""
    if not demo:
        return
    try:
        prepare.check_port("127.0.0.1", demo.receiver_port)
    except StartError as error:
        logger.warning("no receiver for the demo's events, which wait meanwhile: %s", error)
        return
    receiver = start.python("receiver", "app.demo.receiver")
    receiver.environment = {
        **start.environment,
        "RECEIVER_PORT": str(demo.receiver_port),
        "RECEIVER_SECRET": demo.receiver_secret,
    }
    start.supervisor.start(receiver)


def _print_screen(start: Start, demo: Demo | None) -> None:
    services = make_services(start.settings)
    try:
        print(screen(services, demo), flush=True)
    finally:
        _close(services)
