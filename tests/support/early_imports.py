"""Imports the test modules in an order of its own in each process of a test run.

pytest rewrites the assertions of a test module when it is imported, and keeps the result in Python's cache. In a fresh
checkout there is none, and processes that import the same modules in the same order rewrite each of them at the same
time, for nine seconds of processor time each. So every process begins at another place of the list, and finds in the
cache what the others have rewritten by then. The order of the tests does not change.
"""

from __future__ import annotations

import importlib
import warnings
from contextlib import suppress
from pathlib import Path

import pytest


def import_early(config: pytest.Config, number: int, processes: int, but: list[str]) -> None:
    """Imports what this process is going to collect, as process `number` of so many; `but` are folders of tests/ that
    are not collected. What cannot be imported, or warns, is left to the collection, which reports it."""
    names = _modules(config, but)
    first = len(names) * number // processes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in names[first:] + names[:first]:
            with suppress(Exception, pytest.skip.Exception):
                importlib.import_module(name)


def _modules(config: pytest.Config, but: list[str]) -> list[str]:
    names = []
    for argument in config.args:
        path = Path(config.invocation_params.dir, argument.split("::")[0])
        for file in sorted(path.rglob("test_*.py")) if path.is_dir() else [path]:
            parts = file.relative_to(config.rootpath).with_suffix("").parts
            if len(parts) > 1 and parts[1] not in but:
                names.append(".".join(parts))
    return list(dict.fromkeys(names))
