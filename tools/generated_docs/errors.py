"""Writes the tables of the pages on errors from the catalogue: `python -m tools.generated_docs.errors PAGE`, called by
`make docs`."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from app.distribution import COMMAND_LINE
from app.error_help import HELP
from app.errors import CANCELLING, CONTACTS, FILTER, SCHEMA, SENDS, TYPE_LEVEL, Code

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("errors", "body-errors", "send-errors")
TABLE = re.compile(r"(<!-- codes: (\w+) -->\n).*?(<!-- end of codes -->)", re.DOTALL)
CODES: dict[str, Mapping[str, Code]] = {
    "types": TYPE_LEVEL,
    "values": SCHEMA,
    "queries": FILTER,
    "contacts": CONTACTS,
    "sends": SENDS,
    "cancelling": CANCELLING,
}
"""The codes of a table, by the name that its page gives it."""


def page(name: str) -> str:
    """The whole page, with its tables as the catalogue says."""
    text = (DOCS / f"{name}.md").read_text("utf-8")
    return TABLE.sub(lambda table: table[1] + _table(CODES[table[2]]) + table[3], text)


def _table(codes: Mapping[str, Code]) -> str:
    head = (
        "| code | status | type | what it means, and its usual cause | what to do |\n| --- | --- | --- | --- | --- |\n"
    )
    return head + "".join(map(_row, codes.values()))


def _row(code: Code) -> str:
    meaning, cause, remedy = (text.replace(COMMAND_LINE, "tms") for text in HELP[code.code])
    return f"| `{code.code}` | {code.status} | `{code.type}` | {meaning} **Usual cause:** {cause} | {remedy} |\n"


if __name__ == "__main__":
    print(page(sys.argv[1]), end="")
