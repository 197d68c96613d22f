"""Metrics as a scrape shows them."""

from __future__ import annotations

import re
from functools import lru_cache

from flask import Flask
from prometheus_client.parser import text_string_to_metric_families

from app.http.context import EXTENSION
from app.maintenance.figures import FiguresReader
from tests.support.client import Client

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str, beginning: str = "") -> Samples:
    """The samples by name and labels; those whose names begin so, which is quicker than to parse them all."""
    return dict(_sample(line) for line in text.splitlines() if line.startswith(beginning) and not line.startswith("#"))


@lru_cache(maxsize=20_000)
def _sample(line: str) -> tuple[tuple[str, frozenset[tuple[str, str]]], float]:
    """Most lines of a scrape are those of the last one, and to parse one takes long."""
    (family,) = text_string_to_metric_families(line)
    (sample,) = family.samples
    return (sample.name, frozenset(sample.labels.items())), sample.value


def scrape(app: Flask) -> Samples:
    """What `/metrics` shows now, with new figures."""
    renew(app)
    answer = Client(app).get("/metrics")
    assert answer.status_code == 200
    return parsed(answer.text)


def renew(app: Flask) -> None:
    """Makes the next scrape read the figures, however recently they were read."""
    reader: FiguresReader = app.extensions[f"{EXTENSION}.{FiguresReader.__name__}"]
    reader._due = 0.0


def value(scraped: Samples, name: str, **labels: str) -> float:
    """The value of one sample; 0 if it is not there."""
    return scraped.get((name, frozenset(labels.items())), 0.0)


def samples(scraped: Samples, pattern: str) -> Samples:
    """The samples whose names match a pattern."""
    return {key: number for key, number in scraped.items() if re.fullmatch(pattern, key[0])}
