"""What the dashboard asks for is there in a running service (docs/monitoring/dashboard.json), and Prometheus finds no
fault with a scrape of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import requests

from app.infrastructure.metric_kinds import DEFINITIONS
from app.maintenance import figures
from tests.monitoring.world import World
from tests.support.servers import PATIENCE, wait_until
from tests.unit.transports.mailserver import DROP

pytestmark = pytest.mark.skipif("MONITORING" not in os.environ, reason="`make monitoring` runs it, with Prometheus")

DASHBOARD = Path(__file__).parents[2] / "docs" / "monitoring" / "dashboard.json"
QUERIES = [
    (panel["title"], target["expr"])
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    for target in panel.get("targets", ())
]


def test_every_panel_shows_something_of_a_service_that_had_traffic(world: World) -> None:
    """Mail that left and mail that is deferred, and a webhook that does not answer."""
    assert len(QUERIES) > 20
    world.relay.reply("MAIL", DROP)

    def empty() -> list[str]:
        assert world.send(2).ok
        return [title for title, query in QUERIES if not world.alerts.values(query)]

    wait_until(lambda: not empty(), "each panel has a value")


def test_a_query_for_what_does_not_exist_finds_nothing(world: World) -> None:
    """The test of the panels notices such a query for that reason."""
    assert world.alerts.values("sum by (type) (rate(tms_made_up_total[5m]))") == []


def test_promtool_finds_no_fault_with_a_scrape(world: World) -> None:
    """Which has all metrics of the page and no others, once its process has read the figures of the database."""
    scrapes: list[str] = []

    def has_figures() -> bool:
        scrapes.append(requests.get(f"{world.service.base}/metrics", timeout=PATIENCE).text)
        return "tms_figures_seconds" in scrapes[-1]

    wait_until(has_figures, "a process has read the figures")
    text = scrapes[-1]
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    assert figures.__name__  # it defines the last of them
    assert set(re.findall(r"^# TYPE (tms_\w+) ", text, re.MULTILINE)) == set(DEFINITIONS)
