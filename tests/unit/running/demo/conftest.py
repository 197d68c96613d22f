"""An installation with the demo, new for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.launcher.screen import Demo
from app.services import Services
from app.settings import Settings
from tests.support.demo import demo_settings, load_demo, open_services


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return demo_settings(tmp_path)


@pytest.fixture
def services(settings: Settings) -> Iterator[Services]:
    with open_services(settings) as services:
        yield services


@pytest.fixture
def demo(services: Services) -> Demo:
    return load_demo(services)
