"""Writes the table of attributes in docs/sending.md from the schema: `python -m tools.sending_page`, called by
`make docs`."""

from __future__ import annotations

from pathlib import Path

from app.sends.accept.draft import EMAIL_ONLY
from schemas.sends import SendSchema

PAGE = Path(__file__).parents[1] / "docs" / "sending.md"
BEGIN, END = "<!-- attributes of a send -->\n", "<!-- end of attributes -->"


def page() -> str:
    """The whole page, with the table as the schema says."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    return f"{before}{BEGIN}{_table()}{END}{rest.partition(END)[2]}"


def _table() -> str:
    rows = (
        f"| `{name}` | {'email' if name in EMAIL_ONLY else 'both'} | {field.metadata['about']} |\n"
        for name, field in SendSchema().fields.items()
    )
    return "".join(("| attribute | for | |\n| --- | --- | --- |\n", *rows))


if __name__ == "__main__":
    print(page(), end="")
