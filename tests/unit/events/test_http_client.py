"""Posting to receivers that are slow, broken or hostile, over real sockets."""

from __future__ import annotations

import gzip
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import timedelta

import pytest

from app.events.dispatch import MAX_IDLE, WebhookClient
from app.events.endpoint import MAX_BODY_BYTES, PostResult
from app.infrastructure import logs
from app.settings import Settings
from tests.support.certificates import Authority
from tests.support.servers import PATIENCE, wait_until
from tests.support.webhook_receiver import Receiver, Reply

BODY = b'{"events":[]}'
HEADERS = {"Content-Type": "application/json", "Service-Signature": "a.b.c"}


def post(client: WebhookClient, url: str, *, webhook_id: int = 1, allow_private: bool = True) -> PostResult:
    return client.post(webhook_id, url, BODY, HEADERS, allow_private=allow_private)


@pytest.fixture
def client() -> Iterator[WebhookClient]:
    with closing(WebhookClient()) as webhook_client:
        yield webhook_client


@pytest.fixture
def hasty() -> Iterator[WebhookClient]:
    with closing(WebhookClient(read_timeout=0.4)) as webhook_client:
        yield webhook_client


@pytest.fixture
def trusting(authority: Authority) -> Iterator[WebhookClient]:
    """A client that trusts the certificate authority of the tests."""
    with closing(WebhookClient(authority.trust)) as webhook_client:
        yield webhook_client


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """Undoes `logs.configure`."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers, root.level = handlers, level
    logging.captureWarnings(False)


@contextmanager
def raw_server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """The URL of a TCP server that passes every connection to `serve`."""

    def serve_and_close(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=serve_and_close, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/in"
        listener.shutdown(socket.SHUT_RDWR)


def read_request(connection: socket.socket) -> bytes:
    """The bytes of one request; none after the other side has closed."""
    request = b""
    while not request.endswith(BODY):
        received = connection.recv(65536)
        if not received:
            return b""
        request += received
    return request


def blocked_until(gate: threading.Event) -> None:
    """Waits for the gate before it serves."""
    gate.wait(PATIENCE)


def trickle(connection: socket.socket, head: bytes) -> None:
    """Sends the head, then a byte at a time, until the connection is closed."""
    read_request(connection)
    connection.sendall(head)
    while True:
        connection.sendall(b"x")
        time.sleep(0.05)


# ------------------------------------------------------------------------------------------------ the request


def test_the_body_arrives_unchanged_with_its_headers(client: WebhookClient) -> None:
    with Receiver(Reply(202, body=b"thank\nyou\x00")) as receiver:
        result = post(client, f"{receiver.url}/ü?a=b c".replace(" ", "%20"))
    (hit,) = receiver.hits
    assert (result.status, result.detail) == (202, "thank you")
    assert result.began <= hit.time <= result.ended
    assert (hit.path, hit.body) == ("/in/%C3%BC?a=b%20c", BODY)
    assert hit.headers["Host"] == f"127.0.0.1:{receiver.port}"
    assert hit.headers["Content-Type"] == "application/json"
    assert hit.headers["Service-Signature"] == "a.b.c"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(client: WebhookClient, status: int) -> None:
    with Receiver() as elsewhere, Receiver(Reply(status, {"Location": elsewhere.url})) as receiver:
        assert post(client, receiver.url).status == status
    assert elsewhere.hits == []


def test_proxies_of_the_environment_are_not_used(client: WebhookClient, monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as proxy, Receiver() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert post(client, receiver.url).status == 200
    assert (len(proxy.hits), len(receiver.hits)) == (0, 1)


def test_cookies_are_not_sent_back(client: WebhookClient) -> None:
    with Receiver(Reply(200, {"Set-Cookie": "id=7; Path=/"})) as receiver:
        for _ in range(2):
            post(client, receiver.url)
    assert [hit.headers["Cookie"] for hit in receiver.hits] == [None, None]


def test_a_compressed_answer_is_not_decompressed(client: WebhookClient) -> None:
    packed = gzip.compress(b"0" * 10_000_000)
    with Receiver(Reply(500, {"Content-Encoding": "gzip"}, packed)) as receiver:
        result = post(client, receiver.url)
    assert result.status == 500
    assert "0" * 10 not in result.detail


def test_a_malformed_answer_does_not_put_the_url_into_the_log(
    client: WebhookClient, capsys: pytest.CaptureFixture[str], restored_logging: None
) -> None:
    logs.configure(Settings())

    def serve(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nno field\r\nContent-Length: 5, 6\r\n\r\n")

    with raw_server(serve) as url:
        post(client, f"{url}?token=secret")
    assert "secret" not in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------ connections


def test_the_connection_of_a_webhook_is_kept_for_its_next_batch(client: WebhookClient) -> None:
    with Receiver(Reply(200, body=b"ok"), Reply(500, body=b"no"), 200) as receiver:
        assert [post(client, receiver.url, webhook_id=7).status for _ in range(3)] == [200, 500, 200]
        post(client, receiver.url, webhook_id=8)
    ports = [hit.client_port for hit in receiver.hits]
    assert ports[0] == ports[1] == ports[2] != ports[3]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ],
)
def test_a_connection_is_kept_after_every_form_of_an_answer(client: WebhookClient, answer: bytes) -> None:
    connections: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        connections.append(connection)
        while read_request(connection):
            connection.sendall(answer)

    with raw_server(serve) as url:
        assert {post(client, url).status for _ in range(3)} <= {200, 204}
    assert len(connections) == 1


def test_a_connection_that_the_receiver_closed_is_replaced(client: WebhookClient) -> None:
    with Receiver(Reply(200, {"Connection": "close"}, b"bye"), 200) as receiver:
        assert [post(client, receiver.url).status for _ in range(2)] == [200, 200]
    assert receiver.hits[0].client_port != receiver.hits[1].client_port


def test_a_connection_that_closes_when_it_is_reused_is_no_failed_attempt(client: WebhookClient) -> None:
    requests: list[bytes] = []

    def serve_one_request_then_close_at_the_second(connection: socket.socket) -> None:
        requests.append(read_request(connection))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        read_request(connection)

    with raw_server(serve_one_request_then_close_at_the_second) as url:
        assert [post(client, url).status for _ in range(3)] == [200, 200, 200]
    assert len(requests) == 3


def test_a_changed_url_gets_a_connection_of_its_own(client: WebhookClient) -> None:
    with Receiver() as first, Receiver() as second:
        assert post(client, first.url, webhook_id=9).status == 200
        assert post(client, second.url, webhook_id=9).status == 200
    assert (len(first.hits), len(second.hits)) == (1, 1)


def test_the_number_of_kept_connections_is_limited(client: WebhookClient) -> None:
    open_now: set[int] = set()

    def serve(connection: socket.socket) -> None:
        open_now.add(connection.fileno())
        key = connection.fileno()
        while read_request(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        open_now.discard(key)

    with raw_server(serve) as url:
        for webhook_id in range(MAX_IDLE + 5):
            assert post(client, url, webhook_id=webhook_id).status == 200
        wait_until(lambda: len(open_now) == MAX_IDLE, "the surplus connections are closed")


# ------------------------------------------------------------------------------------------------ hostile receivers


def test_no_answer_is_a_time_out(hasty: WebhookClient) -> None:
    gate = threading.Event()
    with Receiver(Reply(gate=gate)) as receiver:
        result = post(hasty, receiver.url)
        gate.set()
    assert (result.status, result.detail) == (None, "no answer in 0.4 s")
    assert result.ended - result.began >= timedelta(seconds=0.4)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nX-Slow: "])
def test_a_receiver_that_trickles_its_answer_is_disconnected(hasty: WebhookClient, head: bytes) -> None:
    with raw_server(lambda connection: trickle(connection, head)) as url:
        result = post(hasty, url)
    assert (result.status, result.detail) == (None, "no answer in 0.4 s")


@pytest.mark.parametrize("connection_header", [b"", b"Connection: close\r\n"])
def test_a_trickling_body_does_not_change_the_result_of_the_status(
    client: WebhookClient, connection_header: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.events.endpoint.REST_TIMEOUT", 0.2)
    head = b"HTTP/1.1 200 OK\r\n" + connection_header + b"Content-Length: 1000000\r\n\r\n"
    with raw_server(lambda connection: trickle(connection, head)) as url:
        result = post(client, url)
    assert result.status == 200


def test_at_most_64_kib_of_an_answer_are_read(client: WebhookClient) -> None:
    sent = 0
    ended = threading.Event()

    def flood(connection: socket.socket) -> None:
        nonlocal sent
        read_request(connection)
        connection.sendall(b"HTTP/1.1 500 No\r\nContent-Length: 1000000000\r\n\r\n")
        try:
            while True:
                sent += connection.send(b"x" * 65536)
        except OSError:
            ended.set()

    with raw_server(flood) as url:
        result = post(client, url)
        assert ended.wait(PATIENCE), "the connection was not closed"
    assert (result.status, result.detail) == (500, "x" * 200)
    assert sent < MAX_BODY_BYTES + 16 * 1024 * 1024  # plus what the kernel buffers


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (b"", "Remote end closed connection without response"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH-2.0-OpenSSH_9.6"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n", "got more than 100 headers"),
        (b"HTTP/1.1 " + b"2" * 70000, "got more than 65536 bytes when reading status line"),
    ],
)
def test_an_answer_that_is_not_http_is_a_failure(client: WebhookClient, answer: bytes, detail: str) -> None:
    def serve(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(answer)

    with raw_server(serve) as url:
        result = post(client, url)
    assert (result.status, result.detail) == (None, detail)


def test_an_answer_before_the_end_of_the_body_counts(client: WebhookClient) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(1024)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")

    with raw_server(serve) as url:
        assert client.post(1, url, b"x" * 5_000_000, HEADERS, allow_private=True).status == 413


def test_a_refused_connection_is_a_failure(client: WebhookClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    result = post(client, f"http://127.0.0.1:{port}/in")
    assert result.status is None
    assert "Connection refused" in result.detail


def test_a_host_that_does_not_accept_connections_is_a_time_out() -> None:
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):  # the backlog of the listener is full, so the next connection gets no answer
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        hasty = stack.enter_context(closing(WebhookClient(connect_timeout=0.3)))
        result = post(hasty, f"http://127.0.0.1:{full.getsockname()[1]}/in")
    assert (result.status, result.detail) == (None, "timed out")
    assert result.ended - result.began >= timedelta(seconds=0.3)


def test_an_endless_tls_handshake_is_a_time_out() -> None:
    gate = threading.Event()
    with (
        raw_server(lambda _: blocked_until(gate)) as url,
        closing(WebhookClient(connect_timeout=0.3)) as hasty,
    ):
        result = post(hasty, url.replace("http://", "https://"))
        gate.set()
    assert result.status is None
    assert "timed out" in result.detail
    assert result.ended - result.began >= timedelta(seconds=0.3)


def test_requests_can_be_aborted_from_another_thread() -> None:
    gate = threading.Event()
    results: list[PostResult] = []
    with Receiver(Reply(gate=gate)) as receiver, closing(WebhookClient(read_timeout=10 * PATIENCE)) as client:
        thread = threading.Thread(target=lambda: results.append(post(client, receiver.url)))
        thread.start()
        wait_until(lambda: receiver.hits, "the request is there")
        client.abort()
        thread.join(PATIENCE)
        gate.set()
    assert [result.status for result in results] == [None]


# ------------------------------------------------------------------------------------------------ addresses


def test_an_address_of_the_own_network_is_refused_before_anything_is_sent(client: WebhookClient) -> None:
    with Receiver() as receiver:
        result = post(client, receiver.url.replace("http://", "https://"), allow_private=False)
    assert (result.status, result.detail) == (None, "leads to 127.0.0.1 (127.0.0.1), which is not a public address")
    assert receiver.hits == []


def test_http_is_refused_without_the_setting_that_allows_it(client: WebhookClient) -> None:
    with Receiver() as receiver:
        result = post(client, receiver.url, allow_private=False)
    assert (result.status, result.detail) == (None, "must begin with https://")
    assert receiver.hits == []


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def name_server(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Replaces the system's resolver; each lookup takes the next answer. Returns the lookups."""
    real = socket.getaddrinfo
    waiting = list(answers)
    asked: list[str] = []

    def answer(host: str, port: int | None, *args: int, **options: int) -> list[object]:
        if host.replace(".", "").isdigit():
            return list(real(host, port, *args, **options))
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port or 0)) for address in waiting.pop(0)]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return asked


def test_the_address_connected_to_is_the_one_checked(trusting: WebhookClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that answers with a public address first and a private one next is asked only once."""
    asked = name_server(monkeypatch, ["1.1.1.1"], ["127.0.0.1"])
    reached: list[str] = []

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        reached.append(address[0])
        raise ConnectionRefusedError("not from a test")

    monkeypatch.setattr(socket, "create_connection", connect)
    assert post(trusting, "https://rebind.example/in", allow_private=False).detail == "not from a test"
    assert (asked, reached) == (["rebind.example"], ["1.1.1.1"])


def test_a_name_that_resolves_to_the_own_network_is_refused(
    authority: Authority, trusting: WebhookClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Receiver(tls=authority.server("inner.example")) as receiver:
        name_server(monkeypatch, ["127.0.0.1"])
        result = post(trusting, f"https://inner.example:{receiver.port}/in", allow_private=False)
    assert result.detail == "leads to 127.0.0.1 (inner.example), which is not a public address"
    assert receiver.hits == []


def test_tls_uses_the_host_name_and_not_the_address(
    authority: Authority, trusting: WebhookClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Receiver(200, tls=authority.server("hooks.example")) as receiver:
        name_server(monkeypatch, ["127.0.0.1"])
        results = [post(trusting, f"https://hooks.example:{receiver.port}/in") for _ in range(2)]
    assert [result.status for result in results] == [200, 200]
    assert [hit.headers["Host"] for hit in receiver.hits] == [f"hooks.example:{receiver.port}"] * 2
    assert receiver.hits[0].client_port == receiver.hits[1].client_port


def test_a_certificate_for_another_name_is_refused(
    authority: Authority, trusting: WebhookClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Receiver(tls=authority.server("other.example")) as receiver:
        name_server(monkeypatch, ["127.0.0.1"])
        result = post(trusting, f"https://hooks.example:{receiver.port}/in")
    assert result.status is None
    assert "certificate is not valid for 'hooks.example'" in result.detail
    assert receiver.hits == []


def test_a_certificate_of_an_unknown_authority_is_refused(
    authority: Authority, client: WebhookClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Receiver(tls=authority.server("hooks.example")) as receiver:
        name_server(monkeypatch, ["127.0.0.1"])
        result = post(client, f"https://hooks.example:{receiver.port}/in")
    assert result.status is None
    assert "unable to get local issuer certificate" in result.detail
    assert receiver.hits == []


def test_a_host_with_several_addresses_is_reached_at_the_one_that_answers(
    client: WebhookClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Receiver() as receiver:
        name_server(monkeypatch, ["127.0.0.2", "127.0.0.1"])
        assert post(client, f"http://hooks.example:{receiver.port}/in").status == 200
    assert len(receiver.hits) == 1
