"""Finds out which test caused which error code.

If SPEC_COVERAGE names a folder, every process of a test run records there which tests saw which codes.
`python -m tests.support.coverage FOLDER` then prints a table of all codes of the catalogue, and fails when a code has
no test: `make coverage-of-spec`.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

from werkzeug.test import TestResponse

from app.errors import CATALOGUE

SWEEPING = ("test_bodies.py", "test_openapi.py")
"""Tests that try many inputs at once: a test that is about the code is shown in preference."""


def note(answer: TestResponse) -> None:
    """Records the type and the codes of an error response."""
    folder = os.environ.get("SPEC_COVERAGE")
    if not folder or answer.status_code < 400 or not answer.is_json or not answer.data:
        return
    test = os.environ.get("PYTEST_CURRENT_TEST", "outside of a test").rpartition(" ")[0]
    for code in _codes(answer.get_json()):
        _note_once(Path(folder), code, test)


def _codes(body: dict[str, Any]) -> set[str]:
    if "code" not in body:
        return set()
    listed = body.get("_embedded", {}).get("errors", [])
    return {body["type"], body["code"], *(error["code"] for error in listed)}


@cache
def _note_once(folder: Path, code: str, test: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{os.getpid()}.tsv").open("a", encoding="utf-8") as file:
        file.write(f"{code}\t{test}\n")


def read(folder: Path) -> dict[str, str]:
    """Code -> the first test by name that saw it, preferably one that is about the code."""
    pairs = [line.split("\t") for path in folder.glob("*.tsv") for line in path.read_text("utf-8").splitlines()]
    seen: dict[str, str] = {}
    for code, test in sorted(pairs, key=lambda pair: (any(name in pair[1] for name in SWEEPING), pair)):
        seen.setdefault(code, test)
    return seen


def report(seen: dict[str, str]) -> tuple[str, list[str]]:
    """The table, and the codes that no test has seen."""
    width = max(map(len, CATALOGUE))
    table = "".join(f"{code:{width}}  {seen.get(code, '-')}\n" for code in CATALOGUE)
    return table, [code for code in CATALOGUE if code not in seen]


def main(folder: str) -> int:
    """Prints the table and the missing codes; returns 0 if there are none."""
    table, missing = report(read(Path(folder)))
    print(table, end="")
    if missing:
        print(f"no test produces: {', '.join(missing)}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
