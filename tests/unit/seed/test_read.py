"""Reading seed files."""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.seed.errors import SeedError
from app.seed.read import read_file
from tests.support.cases import each


def read(file: Path, text: str, **substitutions: str) -> Any:
    file.write_text(text, "utf-8")
    return read_file(file, substitutions)


def test_yaml_and_json_files_are_read_and_an_empty_file_is_an_empty_object(file: Path) -> None:
    assert read(file, "accounts:\n- {name: Acme, born: 2026-01-31}") == {
        "accounts": [{"name": "Acme", "born": date(2026, 1, 31)}]
    }
    assert read(file, '{"accounts": [{"name": "Acmé"}]}') == {"accounts": [{"name": "Acmé"}]}
    assert read(file, "") is None
    assert read(file, "# nothing but a remark\n") is None


def test_known_placeholders_are_replaced_and_others_stay(file: Path) -> None:
    text = 'a: "http://127.0.0.1:${RECEIVER_PORT}/${OTHER}"'
    assert read(file, text, RECEIVER_PORT="8001") == {"a": "http://127.0.0.1:8001/${OTHER}"}


def test_merge_keys_and_aliases_work(file: Path) -> None:
    text = "x: &x {a: 1, b: 2}\ny: &y {<<: *x, b: 3}\nz: {<<: *y, b: 4}\nw: *x"
    assert read(file, text) == {
        "x": {"a": 1, "b": 2},
        "y": {"a": 1, "b": 3},
        "z": {"a": 1, "b": 4},
        "w": {"a": 1, "b": 2},
    }


@each(
    ("text", "message"),
    [
        ("accounts:\n- name: a\n  name: b\n", "line 3, column 3: 'name' is given twice"),
        ("accounts: [", "line 2, column 1: did not find expected node content"),
        ("a: !!python/object/apply:os.getcwd []", "line 1, column 4: could not determine a constructor"),
        ("a: 1\n---\nb: 2\n", "line 2, column 1: but found another document"),
        ("a: 2026-02-31", "day is out of range for month"),
    ],
)
def test_a_syntax_error_is_reported_with_its_place(file: Path, text: str, message: str) -> None:
    with pytest.raises(SeedError) as caught:
        read(file, text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("text", ["[", "{", "- ", "? ", "{a: ", "a: ["])
def test_values_within_values_have_a_limit(file: Path, text: str) -> None:
    """The loader in C would crash."""
    with pytest.raises(SeedError, match=r"line 1, column \d+: has more than 100 levels"):
        read(file, text * 65_536)
    levels = 98 * "[" + "{name: Acme}" + 98 * "]"
    assert f"{read(file, levels)}" == 98 * "[" + "{'name': 'Acme'}" + 98 * "]"


def test_other_encodings_and_missing_files_are_refused(file: Path) -> None:
    with pytest.raises(SeedError, match="the file cannot be read: No such file or directory"):
        read_file(file, {})
    file.write_bytes("name: Acmé".encode("latin-1"))
    with pytest.raises(SeedError, match="the file is not UTF-8"):
        read_file(file, {})


@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"])) | st.text(alphabet="{}[]:,-&*!<>|'\"#\n ab1?%"))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_read_or_refused(file: Path, text: str) -> None:
    with suppress(SeedError):
        read(file, text)
