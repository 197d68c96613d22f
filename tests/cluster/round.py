"""One round: the service on its hosts under load, a fault, and what was seen of it."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos import registry, round
from tests.chaos.check import Result
from tests.chaos.limits import Limits
from tests.chaos.promises import FAILED_ROUND
from tests.chaos.record import RoundRecord
from tests.cluster.engines import Engines
from tests.cluster.faults import Fault
from tests.cluster.stage import ClusterStage, cluster_stage
from tests.cluster.verdict import Figures, Judge, Span, figures


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a round. `broken` is a build of tests/chaos/broken, `keep` a folder for the logs of failed
    rounds. A `short` round looks for what is lost, doubled or stuck, whatever the times: the machine may be slow."""

    fault: Fault
    hosts: tuple[str, ...]
    seed: int
    broken: str = ""
    keep: Path | None = None
    short: bool = False

    @property
    def judges(self) -> Sequence[Judge]:
        return () if self.short else self.fault.judges

    @property
    def limits(self) -> Limits:
        return self.fault.limits.whatever_the_times() if self.short else self.fault.limits

    @property
    def must(self) -> str:
        """What must be reached, in words."""
        return "lost 0, doubled 0, goes on" if self.short else self.fault.must


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a round has shown. `missed` is what must be reached and was not, in words."""

    figures: Figures | None
    missed: list[str]
    violated: set[str]
    """The names of the checks and judges that have found it."""


def run(plan: Plan, engines: Engines) -> Outcome:
    """Runs the round on a healthy cluster, which it leaves healthy."""
    fault, folder = plan.fault, engines.folder / f"round-{plan.fault.name}"
    chance = random.Random(f"{plan.seed} {fault.name}")
    records: list[RoundRecord] = []
    with cluster_stage(engines, folder, plan.hosts, [plan.broken] if plan.broken else [], plan.seed) as stage:
        try:
            result = _carry_out(plan, stage, chance, records)
        except AssertionError as error:
            result = Result()
            result.note(FAILED_ROUND, str(error))
        span = Span(stage.struck, stage.healed)
        judged = {judge.__name__: judge(seen, span) for seen in records for judge in plan.judges}
        missed = [*(words for told in judged.values() for words in told), *result.broken]
        if missed and plan.keep:
            _keep(engines.folder, stage.folder, plan.keep / fault.name)
        row = figures(records[0], result, span) if records else None
    shutil.rmtree(folder, ignore_errors=True)
    return Outcome(row, missed, result.violated | {name for name, told in judged.items() if told})


def _carry_out(plan: Plan, stage: ClusterStage, chance: random.Random, records: list[RoundRecord]) -> Result:
    fault = plan.fault
    fault.prepare(stage)
    if fault.through_haproxy:
        stage.reach_engines_by_haproxy()

    def strike(*_: object) -> None:
        stage.struck = time.time()
        try:
            fault.strike(stage, chance)
        finally:
            stage.healed = stage.healed or time.time()
        stage.engines.await_health()

    def afterwards(_stage: object, seen: RoundRecord) -> list[str]:
        records.append(seen)
        return []

    settings = {"slowly": fault.slowly, "backlog": fault.backlog, "rest": fault.rest, "afterwards": afterwards}
    return round.carry_out(
        registry.Fault(fault.name, strike, (), plan.limits, **settings),  # type: ignore[arg-type]
        *(plan.limits, stage, chance),
    )


def _keep(engines: Path, stage: Path, target: Path) -> None:
    """Copies the logs of engines, service and the other sides."""
    target.mkdir(parents=True, exist_ok=True)
    for path in (stage / "log", *stage.glob("*.log"), *stage.glob("*.output"), *engines.glob("*.log")):
        if path.exists():
            shutil.copy(path, target / path.name)
