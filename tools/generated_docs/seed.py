"""Writes the tables of docs/seed.md from the resource definitions: `python -m tools.generated_docs.seed`, called by
`make docs`."""

from __future__ import annotations

import re
from pathlib import Path

from app.resources.definition import Attribute, Choice, Flag, ResourceDefinition
from app.seed.nouns import RESOURCES

PAGE = Path(__file__).parents[2] / "docs" / "seed.md"
TABLE = re.compile(r"(<!-- keys of (\w+) -->\n).*?(<!-- end of keys -->)", re.DOTALL)


def page() -> str:
    """The whole page, with the tables as the definitions say."""
    defined = {resource.seed_key: resource for resource in RESOURCES}
    return TABLE.sub(lambda match: match[1] + _table(defined[match[2]]) + match[3], PAGE.read_text("utf-8"))


def _table(resource: ResourceDefinition) -> str:
    rows = [
        f"| `{attribute.key}` | {_meaning(attribute)} |\n"
        for attribute in resource.input_attributes
        if attribute.key != resource.key
    ]
    return "".join(("| key | value |\n| --- | --- |\n", *rows))


def _meaning(attribute: Attribute) -> str:
    meaning = attribute.meaning[0].lower() + attribute.meaning[1:]
    if isinstance(attribute.kind, Choice):
        meaning = "; ".join(f"`{word}`: {words}" for word, words in attribute.kind.words.items())
    if isinstance(attribute.kind, Flag):
        meaning = f"true: {meaning}; false by default"
    required = "required: " if attribute.is_required else ""
    nothing = f"; null: {attribute.empty_meaning}" if attribute.empty_meaning else ""
    return f"{required}{meaning}{nothing}{'; of no effect once it exists' if attribute.is_fixed else ''}"


if __name__ == "__main__":
    print(page(), end="")
