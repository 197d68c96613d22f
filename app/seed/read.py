"""Reading a seed file: YAML, of which JSON is a part, into plain data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from app.seed.shape import SeedError

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader in C if the wheel has it: ten times as fast on a file with thousands of contacts."""

MERGE = "tag:yaml.org,2002:merge"
"""The key `<<`, which may be given several times."""


def read_file(path: Path, substitutions: Mapping[str, str]) -> Any:
    """The data of the file, with `${NAME}` replaced by each substitution. Raises `SeedError`."""
    try:
        source = path.read_text("utf-8")
    except OSError as error:
        raise SeedError("", f"the file cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SeedError("", "the file is not UTF-8") from None
    for name, value in substitutions.items():
        source = source.replace("${" + name + "}", value)
    try:
        return _parse(source)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise SeedError(where, str(error.problem)) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SeedError("", " ".join(str(error).split())) from None


def _parse(source: str) -> Any:
    loader = Loader(source)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        _refuse_repeated_keys(root)
        return loader.construct_document(root)
    finally:
        loader.dispose()


def _refuse_repeated_keys(root: yaml.Node) -> None:
    """YAML would silently use the last of repeated keys."""
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))
        if not isinstance(node, yaml.MappingNode):
            waiting += node.value
            continue
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != MERGE]
        known: set[str] = set()
        for key in keys:
            if key.value in known:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} is given twice", problem_mark=key.start_mark)
            known.add(key.value)
        waiting += [value for _, value in node.value]
