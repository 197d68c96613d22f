"""What `flask status` and `flask top` say in words."""

from __future__ import annotations

from collections.abc import Sequence

from redis import RedisError
from sqlalchemy.orm import Session

from app.cli.base import echo
from app.maintenance.figures import Figures, read_figures
from app.maintenance.findings import Finding, findings
from app.services import Services

RUNBOOK = "docs/monitoring/alerts.md"


def read_overview(services: Services, session: Session) -> tuple[Figures, list[Finding]]:
    """The figures that Prometheus gets, and what needs attention."""
    shown = read_figures(session, services.settings.uncertain_wait)
    return shown, findings(shown, redis_up=_answers(services))


def _answers(services: Services) -> bool:
    try:
        return bool(services.redis.ping())
    except RedisError:
        return False


def print_findings(found: Sequence[Finding]) -> None:
    """A line each, with the section of the runbook."""
    if not found:
        echo("all is well")
    for one in found:
        echo(f"! {one.words} ({RUNBOOK}#{one.alert.lower()})")
