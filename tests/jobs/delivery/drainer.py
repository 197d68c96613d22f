"""A worker process for the crash tests: drains once, with the settings of the environment."""

from __future__ import annotations

from app.infrastructure import logs
from app.sends.delivery.drain import drain
from app.services import make_services
from app.settings import from_environment

if __name__ == "__main__":
    settings = from_environment()
    logs.configure(settings)
    drain(make_services(settings))
