"""Alert rules, dashboard and runbook speak of metrics that exist, and each rule has its section."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from app.db.schema import FITTING_STATES
from app.maintenance.alerts import ALERTS
from tests.support.cases import each

FOLDER = Path(__file__).parents[2] / "docs" / "monitoring"
ROW = re.compile(r"^\| `(tms_\w+)` \| (\w+) \| (.*?) \|", re.MULTILINE)
METRICS = {
    name: (kind, set(re.findall(r"`(\w+)`", labels)))
    for name, kind, labels in ROW.findall((FOLDER / "metrics.md").read_text("utf-8"))
}
RULES = [
    rule for group in yaml.safe_load((FOLDER / "alerts.yml").read_text("utf-8"))["groups"] for rule in group["rules"]
]
RUNBOOK = (FOLDER / "alerts.md").read_text("utf-8")
SELECTOR = re.compile(r"\b(tms_\w+)(?:\{([^}]*)\})?")
GROUPED = re.compile(r"\b(?:by|without) \(([^)]*)\)")
SECONDS = {"m": 60, "h": 3600}
PROMETHEUS_LABELS = {"le", "instance", "job"}
SUFFIX = re.compile(r"_(bucket|sum|count)$")


def expressions() -> Iterator[tuple[str, str]]:
    """Place and expression of every query of rules, dashboard and runbook."""
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for panel in json.loads((FOLDER / "dashboard.json").read_text("utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for number, query in enumerate(re.findall(r"```promql\n(.*?)```", RUNBOOK, re.DOTALL)):
        yield f"query {number} of the runbook", query


def metric(name: str) -> tuple[str, set[str]]:
    """Kind and labels of a series' metric; those of a histogram have suffixes."""
    whole = SUFFIX.sub("", name)
    assert name in METRICS or (whole in METRICS and METRICS[whole][0] == "histogram"), f"there is no metric {name}"
    return METRICS[name if name in METRICS else whole]


@each(("place", "expression"), list(expressions()))
def test_a_query_selects_metrics_and_labels_that_exist(place: str, expression: str) -> None:
    known_labels = set(PROMETHEUS_LABELS)
    for name, selected in SELECTOR.findall(expression):
        labels = metric(name)[1] | PROMETHEUS_LABELS
        assert set(re.findall(r"(\w+)(?:=~|!~|!=|=)\"", selected)) <= labels, (place, name)
        known_labels |= labels
    grouped = {label.strip() for match in GROUPED.findall(expression) for label in match.split(",")}
    assert grouped <= known_labels, place


@each("rule", RULES)
def test_a_rule_has_a_section_that_says_what_to_do(rule: dict[str, dict[str, str]]) -> None:
    name = str(rule["alert"])
    assert rule["annotations"]["runbook"] == f"docs/monitoring/alerts.md#{name.lower()}"
    assert f"\n## {name}\n" in RUNBOOK
    assert rule["labels"]["severity"] in ("page", "ticket")


def test_the_runbook_has_no_section_of_a_rule_that_is_gone() -> None:
    assert re.findall(r"^## (Tms\w+)$", RUNBOOK, re.MULTILINE) == [rule["alert"] for rule in RULES]


def test_the_rules_are_the_alerts_of_the_code_in_the_same_order_with_the_same_severity() -> None:
    severities = [(rule["alert"], rule["labels"]["severity"]) for rule in RULES]
    assert severities == [(name, alert.severity) for name, alert in ALERTS.items()]


@each("rule", RULES)
def test_a_rule_has_the_limits_and_the_window_of_its_alert(rule: dict[str, str]) -> None:
    alert = ALERTS[rule["alert"]]
    limits = [float(number) for number in re.findall(r" > ([\d.e+]+)", rule["expr"])]
    if limits:
        assert (max(0.0, limits[0]), limits[1] if alert.minimum else 0.0) == (alert.limit, alert.minimum)
    windows = {int(number) * SECONDS[unit] for number, unit in re.findall(r"\[(\d+)([mh])\]", rule["expr"])}
    assert windows == ({alert.window} if alert.window else set())


def test_the_rule_about_the_schema_leaves_out_the_states_on_which_code_works() -> None:
    """All others are conditions of it, whatever they are called."""
    (expression,) = (rule["expr"] for rule in RULES if rule["alert"] == "TmsSchemaDoesNotFit")
    (states,) = re.findall(r'state!~"([^"]*)"', expression)
    assert set(states.split("|")) == set(FITTING_STATES)
