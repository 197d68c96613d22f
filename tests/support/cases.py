"""Many cases of one rule in one test.

Parameters of pytest make a test of each case, on each database and with an account of its own, which takes several
times as long as the request that it is about.
"""

from __future__ import annotations

import functools
import inspect
import reprlib
import traceback
from collections.abc import Callable, Iterable
from typing import Any

Test = Callable[..., None]
Cases = Iterable[Any] | Callable[[], Iterable[Any]]


def each(names: str | tuple[str, ...], cases: Cases) -> Callable[[Test], Test]:
    """Calls the test for each case, like `pytest.mark.parametrize`, but in one test, whose fixtures all cases share.

    Every case is tried. The failure of the test shows all that fail, with the traceback of each. Cases that take time
    to make are given as a function, which is called when the test runs.
    """
    keys = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
    make_cases = list(cases).copy if isinstance(cases, Iterable) else cases

    def all_arguments() -> list[dict[str, Any]]:
        arguments = [dict(zip(keys, case if len(keys) > 1 else (case,), strict=True)) for case in make_cases()]
        if not arguments:
            raise ValueError("no case is tested")
        return arguments

    def merged(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures, arguments = [], all_arguments()
            for case in arguments:
                try:
                    test(**fixtures, **case)
                except Exception as error:
                    given = ", ".join(f"{key}={_short.repr(case[key])}" for key in keys)
                    failures.append(f"{given}\n{''.join(traceback.format_exception(error))}")
            if failures:
                raise AssertionError("\n".join((f"{len(failures)} of {len(arguments)} cases", *failures)))

        signature = inspect.signature(test)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        # pytest reads the fixtures from it.
        run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return run

    return merged


_short = reprlib.Repr()
_short.maxstring = _short.maxother = 200
