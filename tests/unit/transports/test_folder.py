"""Delivery to a folder: files are complete or absent, one per message however many attempts it takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from app.transports.base import DeliveryResult, OutboundEmail, OutboundSms, Outcome, TransportUrlError
from app.transports.email import email_transport
from app.transports.folder import Folder
from app.transports.sms import sms_transport
from tests.support.cases import each

MakeMail = Callable[..., OutboundEmail]
NAME = "0b8f3f0e-6f6a-4c39-8c3e-3d9d3b8a0001"


def test_a_mail_is_a_file_named_by_its_uuid(tmp_path: Path, mail: MakeMail) -> None:
    email_transport(f"file://{tmp_path}/a/b").connect().send(mail(uuid_=NAME))
    assert {path.name for path in (tmp_path / "a" / "b").iterdir()} == {f"{NAME}.eml"}


def test_a_retried_mail_replaces_its_file(tmp_path: Path, mail: MakeMail) -> None:
    connection = email_transport(f"file://{tmp_path}").connect()
    connection.send(mail(uuid_=NAME, content=b"first"))
    connection.send(mail(uuid_=NAME, content=b"second"))
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"second"]


def test_a_text_is_a_json_file_with_exactly_these_keys(tmp_path: Path) -> None:
    result = sms_transport(f"file://{tmp_path}").connect().send(OutboundSms(NAME, "ACME", "61411111111", "Grüße 🐝"))
    assert result == DeliveryResult.accepted("stored", segments=1, note=f"written to {tmp_path}")
    (path,) = tmp_path.iterdir()
    assert path.name == f"{NAME}.json"
    assert json.loads(path.read_text("utf-8")) == {
        "uuid": NAME,
        "from": "ACME",
        "to": "61411111111",
        "text": "Grüße 🐝",
        "segments": 1,
    }


def test_a_text_with_a_lone_surrogate_is_written(tmp_path: Path) -> None:
    connection = sms_transport(f"file://{tmp_path}").connect()
    assert connection.send(OutboundSms(NAME, "ACME", "61411111111", "a\ud83d")).outcome is Outcome.ACCEPTED
    assert json.loads((tmp_path / f"{NAME}.json").read_text("utf-8"))["text"] == "a?"
    connection.close()


def test_a_text_that_cannot_be_written_is_a_deferral(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    url = f"file://{tmp_path}/file/outbox"
    result = sms_transport(url).connect().send(OutboundSms(NAME, "ACME", "61411111111", "Hi"))
    assert result == DeliveryResult.deferred(
        "the text cannot be stored", note=f"cannot write to {tmp_path}/file/outbox: Not a directory"
    )


def test_a_failed_write_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "taken.eml").mkdir()
    with pytest.raises(IsADirectoryError):
        Folder(tmp_path).write("taken.eml", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["taken.eml"]


def test_a_folder_may_have_any_name(tmp_path: Path, mail: MakeMail) -> None:
    email_transport(f"file://localhost{tmp_path}/a%20b%3Fc%23@d").connect().send(mail(uuid_=NAME))
    assert (tmp_path / "a b?c#@d" / f"{NAME}.eml").exists()


@each("make", [email_transport, sms_transport])
@each(
    ("url", "line"),
    [
        ("file://outbox/mail", "file://outbox/mail: a folder is written with three slashes, as in file:///var/outbox"),
        ("file:outbox", "file://outbox: a folder is written with three slashes, as in file:///var/outbox"),
        ("file://", "file://: a folder is written with three slashes, as in file:///var/outbox"),
        ("file:///out#box", "file:///out: write # as %23; a folder's name has no NUL"),
        ("file:///out%00box", "file:///out%00box: write # as %23; a folder's name has no NUL"),
        ("file:///outbox?mode=fast", "file:///outbox: unknown option 'mode'; known options: none"),
    ],
)
def test_an_invalid_url_is_reported_in_one_line(make: Callable[[str], object], url: str, line: str) -> None:
    with pytest.raises(TransportUrlError) as caught:
        make(url)
    assert str(caught.value) == line
