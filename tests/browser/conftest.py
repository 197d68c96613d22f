"""One service with the demo for all tests, and pages that must stay silent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.console import Console, WatchedPage, launch_options, running_console

if TYPE_CHECKING:
    from playwright.sync_api import Page

collect_ignore_glob = [] if "BROWSER" in os.environ else ["test_*.py"]
"""Only `make browser` installs what they import."""


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """The browser of the system: Playwright downloads none."""
    return {**browser_type_launch_args, **launch_options()}


@pytest.fixture(scope="session")
def console() -> Iterator[Console]:
    """A running service with the demo, and messages that have arrived, have bounced, were refused, and wait."""
    with running_console() as made:
        yield made


@pytest.fixture(scope="session")
def base_url(console: Console) -> str:
    """The URL at which the paths of pages begin."""
    return console.base


@pytest.fixture
def watched(page: Page, console: Console) -> Iterator[WatchedPage]:
    """A page at which the browser finds no fault, and that asks no other host."""
    console.forget_attempts()
    made = WatchedPage(page, console)
    yield made
    assert made.faults == []
