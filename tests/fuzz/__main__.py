"""`make fuzz`: tries very many inputs on the API and on what reads the texts of others; exit status 1 after a fault."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import random
import sys
from collections.abc import Sequence
from typing import Any

from tests.support.chosen import chosen_names

API = "api"


def parse(all_names: Sequence[str], arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--only", metavar="TARGET,…", help="only these targets; see --list")
    parser.add_argument("--inputs", type=int, help="for each reader, instead of 1,000,000 or 100,000")
    parser.add_argument("--examples", type=int, help="for each operation of the API, instead of 100")
    parser.add_argument("--seed", type=int, help="the seed of an earlier run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="readers at the same time")
    parser.add_argument("--short", action="store_true", help="the main readers, and the API, in short: what CI runs")
    parser.add_argument("--list", action="store_true", help="name the targets")
    options = parser.parse_args(arguments)
    options.names = chosen_names(parser, options.only, all_names)
    return options


def main() -> int:
    readers = _readers()
    options = parse([API, *(readers.KNOWN if readers else ())])
    if options.list:
        print(*options.names, sep="\n")
        return 0
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1, 2**31)
    print(f"seed {seed}", flush=True)
    sound = True
    if API in options.names:
        sound = importlib.import_module("tests.fuzz.api").fuzz(seed, examples=options.examples, short=options.short)
    if readers and (names := [name for name in options.names if name != API]):
        sound &= readers.fuzz(names, seed, options.jobs, inputs=options.inputs, short=options.short)
    return 0 if sound else 1


def _readers() -> Any:
    """The module that fuzzes readers, imported late, since it instruments all code that is imported after it."""
    if importlib.util.find_spec("atheris") is None:
        print("left out, since there is no atheris for this platform: the readers")
        return None
    return importlib.import_module("tests.fuzz.readers")


if __name__ == "__main__":
    sys.exit(main())
