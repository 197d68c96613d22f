"""The documented table of settings is the one in the code, and so is the file of it to fill in."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from app.settings import Settings, from_environment, variable_of
from tools.generated_docs.environment import EXAMPLES, example
from tools.generated_docs.settings import page

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    """`make docs` brings the page up to date."""
    assert (ROOT / "docs" / "settings.md").read_text("utf-8") == page()


def test_the_file_to_fill_in_is_up_to_date() -> None:
    """`make docs` brings the file up to date."""
    assert (ROOT / "deploy" / "environment.example").read_text("utf-8") == example()


def test_words_for_a_default_are_no_value_to_fill_in() -> None:
    """`none` would be taken for the name of a host. Otherwise: an example in `EXAMPLES`."""
    worded = [field for field in fields(Settings) if not (field.metadata["shown"] or "`").startswith("`")]
    assert [variable_of(field) for field in worded if variable_of(field) not in EXAMPLES] == []


def test_every_value_of_the_file_to_fill_in_is_valid(tmp_path: Path) -> None:
    """Each default and each example; a file for GEOIP_DATABASE is not there."""
    settings_in_file = re.findall(r"^#([A-Z][A-Z0-9_]*)=(.+)$", example(), re.MULTILINE)
    assert [name for name, _ in settings_in_file] == [variable_of(field) for field in fields(Settings)]
    values = {name: value for name, value in settings_in_file if name != "GEOIP_DATABASE"}
    settings = from_environment({**values, "DATA_DIR": str(tmp_path)})
    for field in fields(Settings):
        if not field.metadata["shown"] and field.name != "data_dir":
            assert getattr(settings, field.name) == field.default, field.name
