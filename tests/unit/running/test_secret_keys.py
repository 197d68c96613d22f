"""SECRET_KEY, its fallbacks, and the generated keys of a data folder (docs/secrets.md#rotating-secret_key)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.secret_keys import (
    FALLBACKS_FILE,
    FILE,
    all_keys,
    fingerprint,
    generated_key,
    generated_keys,
    parse_keys,
    short_fingerprint,
    write_generated_keys,
)
from app.settings import SettingsError, from_environment

OLD, NEW, NEWEST = "o" * 32, "n" * 40, "z" * 64


def test_fallbacks_are_separated_by_commas_or_in_a_file_by_lines(tmp_path: Path) -> None:
    assert parse_keys(f" {OLD} , {NEW},") == (OLD, NEW)
    with_comma = f"{OLD},{NEW}"
    assert parse_keys(f"{with_comma}\n\n{NEWEST}\n") == (with_comma, NEWEST)
    file = tmp_path / "fallbacks"
    file.write_text(f"{OLD}\n{NEW}\n")
    settings = from_environment(
        {"DATA_DIR": str(tmp_path / "data"), "SECRET_KEY": NEWEST, "SECRET_KEY_FALLBACKS_FILE": str(file)}
    )
    assert settings.secret_keys == (NEWEST, OLD, NEW)
    assert OLD not in repr(settings)


def test_a_fallback_that_is_too_short_stops_the_start_and_is_not_shown(tmp_path: Path) -> None:
    environment = {"DATA_DIR": str(tmp_path), "SECRET_KEY_FALLBACKS": f"{OLD},hunter2"}
    with pytest.raises(SettingsError) as error:
        from_environment(environment)
    assert str(error.value) == "SECRET_KEY_FALLBACKS: must be keys of 32 characters or more, separated by commas"


def test_a_running_process_knows_keys_that_are_generated_after_its_start(tmp_path: Path) -> None:
    settings = from_environment({"DATA_DIR": str(tmp_path), "SECRET_KEY_FALLBACKS": OLD})
    first = settings.secret_key
    assert list(settings.secret_keys) == [first, OLD]
    write_generated_keys(tmp_path, (NEW, first))
    assert list(settings.secret_keys) == [first, OLD, NEW]
    assert from_environment({"DATA_DIR": str(tmp_path)}).secret_keys == (NEW, first)
    write_generated_keys(tmp_path, (NEWEST, NEW, first))
    assert list(settings.secret_keys) == [first, OLD, NEWEST, NEW]
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in (FILE, FALLBACKS_FILE)} == {0o600}


def test_processes_with_the_same_id_generate_one_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers that share the folder each count their processes from 1."""
    link, keys = os.link, []

    def link_later(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        keys.append(generated_key(tmp_path))
        link(source, target)

    monkeypatch.setattr(os, "link", link_later)
    keys.append(generated_key(tmp_path))
    assert keys == [(tmp_path / FILE).read_text()] * 2
    assert os.listdir(tmp_path) == [FILE]


def test_generated_keys_do_not_count_beside_one_that_is_set(tmp_path: Path) -> None:
    from_environment({"DATA_DIR": str(tmp_path)})
    assert from_environment({"DATA_DIR": str(tmp_path), "SECRET_KEY": NEW}).secret_keys == (NEW,)


def test_each_step_of_replacing_the_files_has_all_keys(tmp_path: Path) -> None:
    """A process that is killed between two steps leaves nothing that a start could not read."""
    write_generated_keys(tmp_path, (OLD,))
    (tmp_path / FALLBACKS_FILE).write_text(f"{NEW}\n{OLD}\n")
    assert list(generated_keys(tmp_path)) == [OLD, NEW]
    write_generated_keys(tmp_path, (NEW, OLD))
    assert list(generated_keys(tmp_path)) == [NEW, OLD]
    assert generated_keys(tmp_path / "missing") == ()
    assert all_keys(tmp_path, OLD, ()) == (OLD, NEW)


def test_fingerprints_tell_keys_apart() -> None:
    assert len({fingerprint(OLD), fingerprint(NEW), short_fingerprint(OLD)}) == 3
    assert fingerprint(OLD).startswith(short_fingerprint(OLD))
    assert OLD not in fingerprint(OLD)
