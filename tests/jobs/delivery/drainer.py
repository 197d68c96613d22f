"""A worker process for the crash tests: drains once."""

from __future__ import annotations

from app.infrastructure import logs
from app.sends.delivery.drain import drain
from app.sends.outcomes import mirror
from app.services import make_services
from app.settings import from_environment
from tests.support.servers import PATIENCE


def main(environ: dict[str, str]) -> None:
    """Drains with the settings of the environment; no Redis counts as slow, however busy the machine is."""
    mirror.HOLD_SECONDS = PATIENCE
    settings = from_environment(environ)
    logs.configure(settings)
    drain(make_services(settings))
