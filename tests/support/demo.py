"""A separate installation with the demo loaded, as the first `make run` creates it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.launcher import screen as demos
from app.launcher.screen import Demo
from app.launcher.service import migrate_database, seed
from app.services import Services, make_services
from app.settings import Settings, from_environment


def demo_settings(folder: Path) -> Settings:
    """The settings of an installation in the folder."""
    return from_environment({"DATA_DIR": str(folder), "WEBHOOK_ALLOW_PRIVATE": "on", "REQUIRE_HTTPS": "off"})


@contextmanager
def open_services(settings: Settings) -> Iterator[Services]:
    """The services of the installation."""
    services = make_services(settings)
    yield services
    services.database.close()


def load_demo(services: Services) -> Demo:
    """Migrates the database and loads the demo."""
    migrate_database(services.settings)
    demo = demos.read(services.settings)
    seed(services, demos.SEED, demo.substitutions)
    return demo
