"""docs/monitoring/metrics.md has the metrics of the code, with their types and labels, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from app.infrastructure.metric_kinds import DEFINITIONS
from app.maintenance import figures

PAGE = (Path(__file__).parents[2] / "docs" / "monitoring" / "metrics.md").read_text("utf-8")
ROW = re.compile(r"^\| `(tms_\w+)` \| (\w+) \|([^|]*)\| ([^|]+) \| (host|installation) \| ([^|]+) \|$", re.MULTILINE)
FORBIDDEN = {"account", "address", "domain", "email", "mobile", "url", "uuid"}


def test_the_page_has_the_metrics_of_the_code() -> None:
    assert figures.__name__  # it defines the last of them
    documented = {
        name: (kind, {*re.findall(r"`(\w+)`", labels)}) for name, kind, labels, _unit, _scope, _ in ROW.findall(PAGE)
    }
    assert documented == {
        definition.name: (definition.type, {*definition.labels}) for definition in DEFINITIONS.values()
    }


def test_names_and_units_are_those_of_prometheus() -> None:
    for name, kind, _labels, unit, _scope, meaning in ROW.findall(PAGE):
        assert name.endswith("_total") == (kind == "counter"), name
        assert (unit.strip() in ("seconds", "seconds since 1970")) == name.endswith("_seconds"), name
        assert (unit.strip() == "bytes") == name.endswith("_bytes"), name
        assert meaning.strip().endswith("."), name


def test_no_label_is_of_one_account_or_person() -> None:
    assert [definition.name for definition in DEFINITIONS.values() if FORBIDDEN & {*definition.labels}] == []
