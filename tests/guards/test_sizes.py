"""Functions stay short enough to read from top to bottom (docs/code-layout.md#imports)."""

from __future__ import annotations

import ast

from tests.support.sources import Function, Source, library_sources, sources

MOST_FUNCTION_LINES = 40


def length(function: Function) -> int:
    """The lines of a function without its docstring."""
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function):
        text = function.body[0]
        assert text.end_lineno is not None
        lines -= text.end_lineno - text.lineno + 1
    return lines


def too_long(module: Source) -> dict[str, int]:
    """The functions of a module that are too long, by full name."""
    lengths = {f"{module.name}.{function.name}": length(function) for function in module.functions()}
    return {name: lines for name, lines in lengths.items() if lines > MOST_FUNCTION_LINES}


def test_no_function_is_long() -> None:
    assert [name for source in (*sources(), *library_sources()) for name in too_long(source)] == []
