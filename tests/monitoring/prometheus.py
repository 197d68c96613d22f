"""Prometheus itself, over the alert rules of the documentation with shorter times."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests
import yaml

from tests.support.launched import ROOT
from tests.support.servers import PATIENCE, free_port, wait_until

RULES = ROOT / "docs" / "monitoring" / "alerts.yml"
WINDOW = "20s"
LIMITS = {
    "TmsMessagesWait": (" > 60", " > 2"),
    "TmsWebhooksBehind": (" > 900", " > 2"),
    "TmsSchedulerDoesNotLook": (" > 120", " > 10"),
    "TmsCleaningLate": (" > 10800", " > 15"),
    "TmsBackupOld": (" > 129600", " > 15"),
    "TmsHandoverSlow": (" > 60", " > 2"),
    "TmsMessagesUncertain": (" > 3600", " > 2"),
}
"""Alert -> a limit in seconds, and a shorter one in its place."""


def quick_rules() -> str:
    """The rules without the time for which a condition must last, and over shorter windows."""
    rules = yaml.safe_load(RULES.read_text("utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule.pop("for", None)
            if rule["alert"] in LIMITS:
                long, short = LIMITS[rule["alert"]]
                assert rule["expr"].endswith(long), rule["alert"]
                rule["expr"] = rule["expr"].removesuffix(long) + short
            rule["expr"] = re.sub(r"\[\d+[mh]\]", f"[{WINDOW}]", rule["expr"])
    return str(yaml.safe_dump(rules))


@dataclass(frozen=True)
class Prometheus:
    """A running server."""

    base: str

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        alerts = requests.get(f"{self.base}/api/v1/alerts", timeout=PATIENCE).json()["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def values(self, expression: str) -> list[float]:
        """What a query finds now, without what is no number."""
        answer = requests.get(f"{self.base}/api/v1/query", {"query": expression}, timeout=PATIENCE).json()
        assert answer["status"] == "success", answer
        samples = [float(sample["value"][1]) for sample in answer["data"]["result"]]
        return [value for value in samples if not math.isnan(value)]

    def await_firing(self, *names: str) -> None:
        """Waits until all of them fire."""
        wait_until(lambda: set(names) <= self.firing(), f"{', '.join(names)} fire")

    def await_quiet(self, *names: str) -> None:
        """Waits until none of them fires."""
        wait_until(lambda: not set(names) & self.firing(), f"{', '.join(names)} have ended")


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    """Scrapes the target every second."""
    program = shutil.which("prometheus")
    assert program, "`make monitoring` installs it on Debian, as root"
    (folder / "alerts.yml").write_text(quick_rules(), "utf-8")
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "alerts.yml")],
        "scrape_configs": [{"job_name": "tms", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    port = free_port()
    command = [
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        server = Prometheus(f"http://127.0.0.1:{port}")
        try:
            wait_until(lambda: _is_ready(server) or process.poll() is not None, "Prometheus is ready")
            assert process.poll() is None, (folder / "log").read_text()
            yield server
        finally:
            process.terminate()


def _is_ready(server: Prometheus) -> bool:
    try:
        return requests.get(f"{server.base}/-/ready", timeout=PATIENCE).ok
    except requests.ConnectionError:
        return False
