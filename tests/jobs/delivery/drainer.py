"""A worker process for the crash tests: drains once."""

from __future__ import annotations

from app.infrastructure import logs
from app.sends.delivery import drain as drain_module
from app.sends.outcomes import mirror
from app.services import make_services
from app.settings import from_environment
from tests.support.servers import PATIENCE


def main(environ: dict[str, str]) -> None:
    """Drains with the settings of the environment; no Redis and no relay counts as slow, however busy the machine
    is."""
    mirror.HOLD_SECONDS = drain_module.MAX_WAIT = PATIENCE
    settings = from_environment(environ)
    logs.configure(settings)
    drain_module.drain(make_services(settings))
