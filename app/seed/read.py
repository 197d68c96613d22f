"""Reading a seed file: YAML, of which JSON is a part, into plain data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from app.seed.errors import SeedError

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader in C if the wheel has it: ten times as fast on a file with thousands of contacts."""
MAX_DEPTH = 100
"""Levels of values within values. The loader takes time that grows with the square of them, and in C it crashes at
tens of thousands."""

MERGE_TAG = "tag:yaml.org,2002:merge"
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


class _BoundedLoader(Loader):  # type: ignore[misc]
    """Refuses a value that is too deep before it reads what is in it: the two methods are called around each value."""

    depth = 0

    def descend_resolver(self, current_node: yaml.Node | None, current_index: object) -> None:
        """Called before a value below the node is read."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            mark = current_node.start_mark if current_node else None
            raise yaml.MarkedYAMLError(problem=f"has more than {MAX_DEPTH} levels", problem_mark=mark)
        super().descend_resolver(current_node, current_index)

    def ascend_resolver(self) -> None:
        """Called after the value was read."""
        self.depth -= 1
        super().ascend_resolver()


def _parse(source: str) -> Any:
    loader = _BoundedLoader(source)
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
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != MERGE_TAG]
        read_keys: set[str] = set()
        for key in keys:
            if key.value in read_keys:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} is given twice", problem_mark=key.start_mark)
            read_keys.add(key.value)
        waiting += [value for _, value in node.value]
