"""What `GET /metrics` answers: the counts of this host's processes, and the figures of the installation
(docs/monitoring/metrics.md).
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator

from app.distribution import VERSION
from app.infrastructure import metrics
from app.infrastructure.metric_kinds import Definition, Family, Measurement, define, gauge_family
from app.maintenance import figures
from app.maintenance.figures_reader import FiguresReader, Reading
from app.sends.outcomes.attempt_result import journal_sizes
from app.settings import Settings

JOURNAL_BYTES = define("tms_journal_bytes", "gauge", "Size of the journals of this host.", ())
JOURNALS = define("tms_journals", "gauge", "Journals of this host.", ())
BUILD = define("tms_build_info", "gauge", "The version that answers.", ("version", "python"))
DATABASE_UP = define("tms_database_up", "gauge", "Whether the figures of the installation could be read.", ())
REDIS_UP = define("tms_redis_up", "gauge", "Whether Redis answered when they were read.", ())
AGE = define("tms_figures_age_seconds", "gauge", "How old the figures of the installation are.", ())
SECONDS = define("tms_figures_seconds", "gauge", "How long reading them took.", ())


def scrape(settings: Settings, reader: FiguresReader) -> bytes:
    """All metrics in Prometheus' text format."""
    return metrics.exposition([*_of_host(settings), *_of_installation(reader.latest())])


def _of_host(settings: Settings) -> Iterator[Family]:
    sizes = journal_sizes(settings)
    values: dict[Definition, Measurement] = {
        JOURNAL_BYTES: {(): float(sum(sizes))},
        JOURNALS: {(): float(len(sizes))},
        BUILD: {(VERSION, platform.python_version()): 1.0},
    }
    for definition, measured in values.items():
        yield gauge_family(definition.name, definition.documentation, definition.labels, measured)


def _of_installation(reading: Reading | None) -> Iterator[Family]:
    """Without a reading the database has not answered since the process started, or for long."""
    if reading is None:
        yield _single(DATABASE_UP.name, DATABASE_UP.documentation, 0.0)
        return
    yield from figures.families(reading.figures)
    yield _single(DATABASE_UP.name, DATABASE_UP.documentation, float(reading.database_up))
    yield _single(REDIS_UP.name, REDIS_UP.documentation, float(reading.redis_up))
    yield _single(AGE.name, AGE.documentation, round(time.monotonic() - reading.taken, 3))
    yield _single(SECONDS.name, SECONDS.documentation, round(reading.seconds, 3))


def _single(name: str, documentation: str, value: float) -> Family:
    only: Measurement = {(): value}
    return gauge_family(name, documentation, (), only)
