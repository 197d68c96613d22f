"""Logs: one line per record, with the id of the request that caused it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from app.infrastructure import logs
from app.settings import Settings

logger = logging.getLogger("tests.logs")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    token = logs.request_id.set(None)
    yield
    logs.request_id.reset(token)
    for handler in root.handlers:
        if isinstance(handler, logs.FileHandler):
            handler.close()
    root.handlers, root.level = handlers, level
    logging.captureWarnings(False)


def configure(log_format: str) -> None:
    logs.configure(replace(Settings(), log_format=log_format))


def test_json_lines_have_the_fields_of_the_record_and_of_the_caller(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json")
    logger.warning("look at %s", "this\nline", extra={"account_id": 7, "odd": {1}})
    line = json.loads(capsys.readouterr().err)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert isinstance(line.pop("process"), int)
    assert line == {
        "level": "warning",
        "logger": "tests.logs",
        "message": "look at this\nline",
        "request_id": None,
        "account_id": 7,
        "odd": "{1}",
    }


def test_a_record_carries_the_request_id_of_its_context(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json")
    token = logs.request_id.set("abc")
    try:
        logger.info("in a request")
        logger.info("of another", extra={"request_id": "given"})
    finally:
        logs.request_id.reset(token)
    lines = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["request_id"] for line in lines] == ["abc", "given"]


LINES: list[tuple[str, dict[str, object]]] = [
    ("sent", {"request_id": "abc", "account_id": 7, "detail": 'a "quoted" text'}),
    ("bounced", {"account_id": 8, "moment": date(2026, 11, 22)}),
]


def test_many_lines_at_once_are_those_of_as_many_records(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json")
    lines: list[tuple[str, dict[str, object]]] = [*LINES, ("half a pair", {"detail": "\ud800"})]
    logs.log_many(logger, lines)
    quick = capsys.readouterr().err.splitlines()
    for message, fields in lines:
        logger.info(message, extra=fields)
    slow = capsys.readouterr().err.splitlines()
    assert [list(json.loads(line)) for line in quick] == [list(json.loads(line)) for line in slow]
    for quick_line, slow_line in zip(quick, slow, strict=True):
        assert {**json.loads(quick_line), "time": ""} == {**json.loads(slow_line), "time": ""}


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_many_lines_at_once_reach_every_handler(capsys: pytest.CaptureFixture[str], log_format: str) -> None:
    configure(log_format)
    seen = list[logging.LogRecord]()
    other = logging.Handler()
    other.emit = seen.append  # type: ignore[assignment, method-assign]
    logging.getLogger().addHandler(other)
    logs.log_many(logger, LINES)
    assert [(record.getMessage(), vars(record)["account_id"]) for record in seen] == [("sent", 7), ("bounced", 8)]
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_many_lines_below_the_level_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json")
    logging.getLogger().setLevel(logging.WARNING)
    logs.log_many(logger, LINES)
    assert capsys.readouterr().err == ""


def test_a_traceback_stays_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json")
    try:
        raise ValueError("no \udc80 text")
    except ValueError:
        logger.exception("it failed")
    (line,) = capsys.readouterr().err.splitlines()
    assert "ValueError: no \udc80 text" in json.loads(line)["traceback"]


def test_the_console_format_omits_absent_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure("console")
    logger.error("it failed", extra={"account_id": 7, "nothing": None})
    assert re.fullmatch(r"\d\d:\d\d:\d\d error   tests\.logs: it failed account_id=7\n", capsys.readouterr().err)


def test_configuring_twice_does_not_duplicate_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure("console")
    configure("console")
    logger.info("once")
    assert capsys.readouterr().err.count("once") == 1


def test_a_wake_up_is_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json")
    logging.getLogger("rq.worker").info("sends: jobs.sends.drain")
    assert capsys.readouterr().err == ""


def test_lines_for_the_journal_have_its_priority_and_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    configure("journal")
    logger.info("accepted", extra={"account_id": 7})
    logger.warning("a text with\n<0>a priority of its own\0 and a NUL")
    try:
        raise ValueError("why")
    except ValueError:
        logger.exception("failed")
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [
        "<6>tests.logs: accepted account_id=7",
        "<4>tests.logs: a text with",
        "<4><0>a priority of its own  and a NUL",
    ]
    assert lines[3] == "<3>tests.logs: failed"
    assert lines[-1] == "<3>ValueError: why"
    assert all(line.startswith("<3>") for line in lines[3:])


def test_lines_go_to_the_file_of_the_setting_instead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "folder" / "service.log"
    logs.configure(replace(Settings(), log_format="json", log_file=str(file)))
    logger.info("one")
    with logs.buffered():
        logger.info("two")
    assert [json.loads(line)["message"] for line in file.read_text("utf-8").splitlines()] == ["one", "two"]
    assert capsys.readouterr().err == ""


def test_a_large_file_is_kept_beside_a_new_one_which_all_processes_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MAX_FILE_BYTES", 10)
    file = tmp_path / "service.log"
    first, second = logs.FileHandler(file), logs.FileHandler(file)
    first.write(["a line that is long"])
    second.write(["the second begins a file"])
    first.write(["and the first, too"])
    assert file.read_text("utf-8") == "the second begins a file\nand the first, too\n"
    assert file.with_name("service.log.1").read_text("utf-8") == "a line that is long\n"
    file.unlink()
    first.write(["after somebody has removed it"])
    assert file.read_text("utf-8") == "after somebody has removed it\n"
    for handler in (first, second):
        handler.close()


@pytest.mark.parametrize("step", ["open", "replace"])
def test_a_large_file_is_kept_when_two_processes_find_it_large_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(logs, "MAX_FILE_BYTES", 15)
    file = tmp_path / "service.log"
    first, second = logs.FileHandler(file), logs.FileHandler(file)
    first.write(["a line that is long"])
    original = getattr(Path, step)

    def take_a_step(path: Path, *arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(Path, step, original)
        second.write(["of the second"])
        return original(path, *arguments, **options)

    monkeypatch.setattr(Path, step, take_a_step)
    first.write(["of the first"])
    lines = [line for path in (file.with_name("service.log.1"), file) for line in path.read_text().splitlines()]
    assert lines == ["a line that is long", "of the second", "of the first"]
    for handler in (first, second):
        handler.close()


def test_threads_log_while_one_of_them_begins_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_FILE_BYTES", 300)
    handler = logs.FileHandler(tmp_path / "service.log")
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(handler.write, [["a line that is long"] * 5] * 8000)) == {None}
    handler.close()


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        logs.configure(replace(Settings(), log_file=str(tmp_path / "file" / "service.log")))
