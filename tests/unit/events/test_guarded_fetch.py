"""Fetching a document through the SSRF guard."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from app.events import guarded_connection
from app.events.guarded_connection import MAX_BYTES, FetchFailed, fetch
from tests.support.certificates import Authority
from tests.support.webhook_receiver import Receiver, Reply


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_a_document_is_fetched_and_nothing_private_reached(authority: Authority) -> None:
    with Receiver(Reply(body=b"certificate"), tls=authority.server("localhost")) as server:
        url = f"https://localhost:{server.port}/x.pem"
        assert fetch(url, authority.trust, allow_private=True) == b"certificate"
        with pytest.raises(FetchFailed, match="not a public address"):
            fetch(url, authority.trust)
        with pytest.raises(FetchFailed, match="must begin with https"):
            fetch(url.replace("https", "http"), authority.trust)
        assert [hit.path for hit in server.hits] == ["/x.pem"]


@pytest.mark.parametrize(
    "reply",
    [Reply(404), Reply(302, headers={"Location": "/other"}), Reply(body=b"x" * (MAX_BYTES + 1))],
    ids=["404", "redirect", "large"],
)
def test_only_a_whole_document_is_accepted(authority: Authority, reply: Reply) -> None:
    with Receiver(reply, tls=authority.server("localhost")) as server:
        with pytest.raises(FetchFailed, match="status"):
            fetch(f"https://localhost:{server.port}/x", authority.trust, allow_private=True)
        assert len(server.hits) == 1, "no redirect is followed"


def test_a_server_that_does_not_answer_is_given_up(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(guarded_connection, "TOTAL_TIMEOUT", 0.3)
    with Receiver(Reply(gate=gate), tls=authority.server("localhost")) as server:
        with pytest.raises(FetchFailed):
            fetch(f"https://localhost:{server.port}/x", authority.trust, allow_private=True)
        gate.set()
