"""What the library does when an answer does not come, or is not the one hoped for (clients/python/README.md)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from transactional_messaging import (
    ApiError,
    Client,
    Conflict,
    Retries,
    ServiceUnavailable,
    ServiceUnreachable,
    TooManyRequests,
    UnexpectedAnswer,
)
from transactional_messaging.client import base_of
from transactional_messaging.transport import Answer, Call

from tests.support.servers import free_port
from tests.support.webhook_receiver import Receiver, Reply

KEY = "tms_key"
GROUPS: dict[str, Any] = {"size": 0, "_links": {}, "_embedded": {"transactional-groups": []}}
ACCEPTED: dict[str, Any] = {"_embedded": {"recipients": []}, "_links": {}}
REFUSED = {"type": "conflict", "code": "conflict", "developer_message": "No.", "message": "No."}


def reply(body: object, status: int = 200, **headers: str) -> Reply:
    return Reply(status, {name.replace("_", "-"): text for name, text in headers.items()}, json.dumps(body).encode())


def busy(status: int = 503, seconds: str = "0") -> Reply:
    return reply({**REFUSED, "type": "service_unavailable"}, status, Retry_After=seconds)


@contextmanager
def scripted(*replies: Reply | int, **options: Any) -> Iterator[tuple[Receiver, Client, list[float]]]:
    """A server with a script, a client of it, and the waits of the client."""
    waits: list[float] = []
    with (
        Receiver(*replies) as server,
        Client(KEY, f"http://127.0.0.1:{server.port}", retries=Retries(sleep=waits.append), **options) as client,
    ):
        yield server, client, waits


def send(client: Client) -> list[str]:
    return client.sends.create(type="email", recipients=[]).uuids


def test_a_post_is_repeated_with_the_same_key_and_body_after_as_long_as_the_service_says() -> None:
    with scripted(busy(503, "7"), busy(429, "3"), reply(ACCEPTED, 202)) as (server, client, waits):
        assert send(client) == []
        assert len({(hit.headers["Idempotency-Key"], hit.body) for hit in server.hits}) == 1
        assert [int(wait) for wait in waits] == [7, 3]
        send(client)
        assert server.hits[-1].headers["Idempotency-Key"] != server.hits[0].headers["Idempotency-Key"]


def test_all_requests_go_over_one_connection() -> None:
    with scripted(reply(GROUPS)) as (server, client, _):
        for _ in range(5):
            client.groups.list().count()
        assert len({hit.client_port for hit in server.hits}) == 1
        assert {hit.headers["Authorization"] for hit in server.hits} == {f"Bearer {KEY}"}


def test_threads_share_a_client() -> None:
    with scripted(reply(GROUPS)) as (server, client, _):
        threads = [threading.Thread(target=client.groups.list().count) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(server.hits) == 8


def test_a_request_without_an_answer_is_repeated() -> None:
    with scripted(0, reply(GROUPS)) as (server, client, waits):
        assert client.groups.list().count() == 0
        assert len(server.hits) == 2
        assert 0.25 <= waits[0] <= 0.5


def test_a_request_that_gets_no_answer_at_all_is_given_up_with_its_key() -> None:
    with scripted(0) as (server, client, waits):
        with pytest.raises(ServiceUnreachable) as caught:
            send(client)
        assert [hit.headers["Idempotency-Key"] for hit in server.hits] == [caught.value.idempotency_key] * 4
        assert len(waits) == 3
        assert waits == sorted(waits)


def test_nobody_at_the_address_is_an_error_of_its_own() -> None:
    port = free_port()
    client = Client(KEY, f"http://user:secret@127.0.0.1:{port}", retries=Retries(0))
    with pytest.raises(ServiceUnreachable, match=f"^GET /v1/ at 127.0.0.1:{port}: ConnectionError") as caught:
        client.root.get()
    assert "secret" not in str(caught.value)


def test_a_missing_argument_of_a_send_is_an_error_as_of_any_function() -> None:
    with scripted() as (server, client, _):
        for send_without in (client.sends.create, client.sends.dry_run):
            with pytest.raises(TypeError, match=r"^A send needs type and recipients\.$"):
                send_without(subject="Hi")  # type: ignore[call-arg]
        assert server.hits == []


def test_a_slow_answer_ends_at_the_time_out() -> None:
    gate = threading.Event()
    with scripted(Reply(200, gate=gate), timeout=0.05) as (_, client, waits):
        with pytest.raises(ServiceUnreachable):
            client.root.get()
        assert len(waits) == 3
        gate.set()


def test_errors_that_last_are_raised_with_their_status() -> None:
    with scripted(busy(429)) as (server, client, _):
        with pytest.raises(TooManyRequests):
            client.root.get()
        assert len(server.hits) == 4
    with (
        scripted(Reply(502, {}, b"<html>bad gateway</html>")) as (_, client, _),
        pytest.raises(ServiceUnavailable) as caught,
    ):
        client.root.get()
    assert (caught.value.status, caught.value.code) == (502, "http_502")


def test_a_wait_that_is_too_long_is_not_waited_for() -> None:
    with scripted(busy(503, "3600")) as (server, client, waits):
        with pytest.raises(ServiceUnavailable) as caught:
            client.root.get()
        assert (len(server.hits), waits, caught.value.retry_after) == (1, [], 3600)


def test_a_conflict_is_repeated_only_while_the_first_request_is_in_progress() -> None:
    with scripted(reply(REFUSED, 409, Retry_After="1"), reply(ACCEPTED, 202)) as (server, client, _):
        assert send(client) == []
    with scripted(reply(REFUSED, 409)) as (server, client, _):
        with pytest.raises(Conflict):
            send(client)
        assert len(server.hits) == 1


def test_a_delete_whose_answer_was_lost_has_happened() -> None:
    gone = reply({**REFUSED, "type": "not_found"}, 404)
    with scripted(0, gone) as (_, client, _):
        client.contacts.delete(1, 2)
    with scripted(gone) as (_, client, _), pytest.raises(ApiError):
        client.contacts.delete(1, 2)


def test_the_key_follows_no_redirect_and_no_link_to_another_place() -> None:
    page = {**GROUPS, "_links": {"next": {"href": "https://elsewhere.example/v1/lists"}}}
    with scripted(reply(page)) as (server, client, _):
        with pytest.raises(UnexpectedAnswer):
            list(client.groups.list())
        assert len(server.hits) == 1
    with Receiver(reply({})) as other, scripted(Reply(302, {"Location": other.url})) as (_, client, _):
        with pytest.raises(ApiError):
            client.root.get()
        assert other.hits == []


def test_an_answer_of_something_else_is_named() -> None:
    with scripted(Reply(200, {}, b"<html>welcome</html>")) as (_, client, _), pytest.raises(UnexpectedAnswer):
        client.root.get()


def test_netrc_does_not_replace_the_key(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with scripted(reply({"access_token_scope": "report.view"})) as (server, client, _):
        client.root.get()
        assert server.hits[0].headers["Authorization"] == f"Bearer {KEY}"


def test_key_and_address_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver(reply({"access_token_scope": "a,b"})) as server:
        monkeypatch.setenv("TMS_KEY", "tms_other")
        monkeypatch.setenv("TMS_URL", f"http://127.0.0.1:{server.port}/v1/")
        assert Client().root.get().scopes == {"a", "b"}
        assert (server.hits[0].path, server.hits[0].headers["Authorization"]) == ("/v1/", "Bearer tms_other")
    monkeypatch.delenv("TMS_KEY")
    with pytest.raises(ValueError, match="TMS_KEY"):
        Client()
    with pytest.raises(ValueError, match="https"):
        base_of("tms.example.com")


def test_the_date_of_a_proxy_is_a_wait() -> None:
    past, text = (
        Answer(503, b"", {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        Answer(503, b"", {"retry-after": "x"}),
    )
    assert (past.retry_after, text.retry_after, Answer(503, b"").retry_after) == (0.0, None, None)


def test_a_forked_process_opens_connections_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(reply({})) as (server, client, _):
        client.groups.get(1)
        monkeypatch.setattr("os.getpid", lambda: -1)
        client.groups.get(1)
        assert len({hit.client_port for hit in server.hits}) == 2


def test_a_call_has_no_body_unless_it_writes() -> None:
    calls: list[Call] = []

    class Recorder:
        def send(self, call: Call) -> Answer:
            calls.append(call)
            return Answer(200, b"{}")

        def close(self) -> None:
            calls.clear()

    with Client(transport=Recorder()) as client:
        client.groups.get(7, fields=["id", "name"])
        assert calls == [Call("GET", "/v1/transactional-groups/7?fields=id%2Cname")]
    assert calls == []
