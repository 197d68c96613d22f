"""No test measures the wall clock: on a busy machine everything takes longer without a failure.

Instead a test may wait for a condition (`wait_until`, with `PATIENCE`), set a wait that must be ended early to much
longer than `PATIENCE`, count attempts, check that a time lies between two readings of the clock
(`before <= moment <= after`), or compare processor times.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.cases import each
from tests.support.sources import ROOT, dotted

STOPWATCHES = {"time.time", "time.monotonic", "time.perf_counter", "time.time_ns", "time.monotonic_ns"}
CALENDARS = {"now", "this_second", "datetime.now", "datetime.utcnow"}
READINGS = STOPWATCHES | CALENDARS
WAITS = {"wait", "join", "acquire", "settimeout", "communicate", "result", "flush"}
LEAST_DEADLINE = 30
"""Seconds. A shorter deadline that ends in a failure would judge the machine. Waits for what must not happen are
shorter than a second."""
DURATION = "a bound on a duration"
MAY_READ_A_STOPWATCH = {
    "tests/api/test_readiness.py": "it compares a time with two readings",
    "tests/api/test_key_uses.py": "it passes the clock on",
    "tests/attack/__main__.py": "it prints how long a family has taken",
    "tests/attack/families/holding.py": "it compares how long requests take before and during an attack",
    "tests/fuzz/api.py": "it prints how long a level has taken",
    "tests/fuzz/engine.py": "it prints how long a target has taken",
    "tests/installed/test_first_mail.py": "it prints how long the first mail has taken",
    "tests/restore/test_secret_rotation.py": "it passes the clock on",
    "tests/databases/test_figures.py": "it passes the clock on",
    "tests/rolling/__main__.py": "it prints how long an upgrade has taken",
    "tests/server/test_repeated_requests.py": "a moment since when a request has waited, which the code compares",
    "tests/server/test_held_bytes.py": "it compares how long requests take before and during a flood",
    "tests/support/clocks.py": "it passes the clock on",
    "tests/support/installed.py": "it reports how long an installation has taken",
    "tests/support/postgres_start.py": "it gives up after its own deadline",
    "tests/support/servers.py": "`wait_until` gives up after PATIENCE",
    "tests/processes/test_python_redis.py": "it lets half a second pass, and judges processor time",
    "tests/processes/test_supervisor.py": "it determines when a process started that it has not started itself",
    "tests/unit/server/test_answering_threads.py": "it passes a time on",
    "tests/unit/transports/test_pipelining.py": "it passes the clock on",
}


def modules() -> list[Path]:
    """All modules except those that depend on the timing of third-party servers, and those whose purpose is to
    measure."""
    tests = ROOT / "tests"
    return [
        path
        for path in sorted(tests.rglob("*.py"))
        if path.relative_to(tests).parts[0] not in ("interop", "chaos", "cluster")
    ]


def refusals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and reason of each use of the wall clock that static analysis can find."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (late := _short_deadline(node)) is not None:
            yield node.lineno, f"a deadline of {late:g} s"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from ((line, DURATION) for line in _bounded_durations(node))


def _short_deadline(call: ast.Call) -> float | None:
    """The number, if a test gives up waiting sooner than a busy machine may need."""
    if dotted(call.func) == "wait_until":
        given = [keyword.value for keyword in call.keywords if keyword.arg == "seconds"]
    elif isinstance(call.func, ast.Attribute) and call.func.attr in WAITS:
        given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "timeout")]
    else:
        return None
    numbers = [
        argument.value
        for argument in given
        if isinstance(argument, ast.Constant) and isinstance(argument.value, int | float)
    ]
    return next((float(number) for number in numbers if 1 <= number < LEAST_DEADLINE), None)


def _bounded_durations(function: ast.AST) -> Iterator[int]:
    """Lines that compare the time since a reading with anything but a reading."""
    nodes = list(ast.walk(function))
    comparisons = [node for node in nodes if isinstance(node, ast.Compare) and _is_bound(node)]
    if not comparisons:
        return
    readings, lengths = _names(nodes, _is_reading), _names(nodes, _is_length)
    for comparison in comparisons:
        sides = (comparison.left, *comparison.comparators)
        if any(_is_since_reading(part, readings, lengths) for side in sides for part in ast.walk(side)):
            yield comparison.lineno


def _is_bound(comparison: ast.Compare) -> bool:
    return any(isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for operator in comparison.ops)


def _names(nodes: Iterable[ast.AST], says: Callable[[ast.AST], bool]) -> set[str]:
    """The variables to which such a value is assigned."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.Assign | ast.NamedExpr) and says(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def _is_reading(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func) in READINGS


def _is_since_reading(node: ast.AST, readings: set[str], lengths: set[str]) -> bool:
    """A difference with a reading in it; a reading minus an age is a moment, not a duration."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)):
        return False
    if _is_length(node.right) or (isinstance(node.right, ast.Name) and node.right.id in lengths):
        return False
    return any(
        _is_reading(operand) or (isinstance(operand, ast.Name) and operand.id in readings)
        for operand in (node.left, node.right)
    )


def _is_length(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Call) and dotted(node.func) == "timedelta")


@each("path", modules())
def test_no_test_judges_by_the_wall_clock(path: Path) -> None:
    refused = refusals(ast.parse(path.read_text("utf-8")))
    has_reason = path.relative_to(ROOT).as_posix() in MAY_READ_A_STOPWATCH
    assert sorted((line, why) for line, why in refused if not (has_reason and why == DURATION)) == []


def test_stopwatches_are_read_only_with_a_reason() -> None:
    readers = set()
    for path in modules():
        text = path.read_text("utf-8")
        if "time." in text and any(dotted(node) in STOPWATCHES for node in ast.walk(ast.parse(text))):
            readers.add(path.relative_to(ROOT).as_posix())
    assert readers == set(MAY_READ_A_STOPWATCH)


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("began = time.monotonic()\n    assert time.monotonic() - began < 2", True),
        ("assert 0 < (row.due - now()).total_seconds() <= 40", True),
        ("before = now()\n    assert row.due - before <= timedelta(seconds=40)", True),
        ("if (began := this_second()) and moment - began > LONGEST: pytest.fail()", True),
        ("process.wait(10)", True),
        ("thread.join(timeout=5)", True),
        ("process.communicate(timeout=20)", True),
        ("recorder.flush(10)", True),
        ('wait_until(there, "it is there", seconds=10)', True),
        ('wait_until(there, "it is there")', False),
        ("before = now()\n    assert before <= row.due - timedelta(seconds=2) <= now()", False),
        ("assert row.due <= now() - timedelta(seconds=2)", False),
        ("age = timedelta(seconds=2)\n    assert row.due <= now() - age", False),
        ("assert not gate.wait(0.3)", False),
        ("process.wait(PATIENCE)", False),
        ("assert later.time - earlier.time >= spacing", False),
    ],
)
def test_the_guard_distinguishes_allowed_uses(source: str, refused: bool) -> None:
    assert bool(list(refusals(ast.parse(f"def test() -> None:\n    {source}")))) is refused
