"""Slow clients occupy no thread: a request has one only from its last byte until its response is rendered."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import PATIENCE, wait_until
from tests.support.web import Line, Web

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = b"GET /docs/errors HTTP/1.1\r\nHost: loc"
POST = b"POST /doors/what-came HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"


@contextlib.contextmanager
def lines(web: Web, count: int) -> Iterator[list[Line]]:
    """Opens `count` connections."""
    with contextlib.ExitStack() as kept:
        yield [kept.enter_context(web.connect()) for _ in range(count)]


def is_alive(web: Web) -> bool:
    """Whether /healthz and a page that needs a thread answer."""
    with web.connect() as line:
        page = line.ask(HEALTH.replace(b"/healthz", b"/docs/errors"))
        return (page.status, line.ask(HEALTH).status) == (200, 200)


# ---------------------------------------------------------------------------------------------- coming in


@pytest.mark.parametrize("sent", [b"", HALF, POST % 10, POST % 10 + b"12345", POST % 2_000_000 + b"x" * 300_000])
def test_incomplete_requests_occupy_no_thread(web: Web, sent: bytes) -> None:
    with lines(web, 30) as slow:
        for line in slow:
            line.send(sent)
        assert is_alive(web)


def test_a_trickled_request_is_answered_when_it_is_complete(web: Web) -> None:
    with web.connect() as line:
        for byte in POST % 3 + b"abc":
            line.send(bytes([byte]))
        assert line.answer().json()["length"] == 3


def test_a_connection_without_a_request_is_closed_without_an_answer(hasty: Web) -> None:
    with hasty.connect() as line:
        assert line.is_ended()


def test_an_incomplete_header_gets_a_time_out_error_and_the_connection_ends(hasty: Web) -> None:
    with hasty.connect() as line:
        answer = line.ask(HALF)
        assert line.is_ended()
    assert (answer.status, answer.json()["type"]) == (400, "invalid_request")
    assert answer.json()["developer_message"] == "The header of the request did not come in time."
    assert answer.headers["connection"] == "close"


def test_a_trickling_header_times_out(hasty: Web) -> None:
    with hasty.connect() as line:
        sent = iter(HALF + b"X" * 10_000)

        def trickled() -> bool:
            if not has_answer(line):
                line.send(bytes([next(sent)]))
                return False
            return True

        wait_until(trickled, "the server has had enough")
        assert line.answer().status == 400


def test_on_a_kept_connection_the_time_of_a_header_begins_with_its_first_byte(hasty: Web) -> None:
    with hasty.connect() as line:
        assert line.ask(HEALTH).status == 200
        assert line.ask(HALF).json()["developer_message"] == "The header of the request did not come in time."


def test_a_kept_connection_without_a_further_request_is_closed_without_an_answer(hasty: Web) -> None:
    with hasty.connect() as line:
        assert line.ask(HEALTH).headers["connection"] == "keep-alive"
        assert line.is_ended()


@pytest.mark.parametrize("framing", [b"Content-Length: 10", b"Transfer-Encoding: chunked"])
def test_an_incomplete_body_gets_a_time_out_error_and_the_connection_ends(hasty: Web, framing: bytes) -> None:
    with hasty.connect() as line:
        answer = line.ask(b"POST /v1/lists HTTP/1.1\r\nHost: localhost\r\n" + framing + b"\r\n\r\n1\r\n")
        assert line.is_ended()
    assert (answer.status, answer.json()["type"]) == (400, "invalid_request")
    assert answer.json()["developer_message"] == "The body of the request did not come in time."


def test_a_body_that_ends_with_the_connection_gets_an_error(web: Web) -> None:
    with web.connect() as line:
        line.send(POST % 10 + b"12345")
        line.link.shutdown(socket.SHUT_WR)
        assert line.answer().json()["developer_message"] == "The body ended before it was complete."


def test_at_the_limit_the_connection_that_has_waited_longest_is_closed(strict: Web) -> None:
    with lines(strict, 60) as idle:
        assert is_alive_over_https(strict)
        assert idle[0].is_ended()


def is_alive_over_https(web: Web) -> bool:
    """Whether a further client gets an answer."""
    with web.connect() as line:
        return line.ask(HEALTH).status == 200


def test_at_the_limit_of_buffered_bytes_the_largest_request_is_refused(strict: Web) -> None:
    with strict.connect() as large, strict.connect() as small:
        large.send(POST % 1_000_000 + b"x" * 900_000)
        wait_until(lambda: unread(large) == 0, "the server has read it")
        small.send(POST % 200_000 + b"x" * 199_000)
        answer = large.answer()
        assert (answer.status, answer.json()["type"]) == (503, "service_unavailable")
        assert int(answer.headers["retry-after"]) > 0
        small.send(b"x" * 1000)
        assert small.answer().json()["length"] == 200_000


def unread(line: Line) -> int:
    """Bytes that the system buffers on their way to the server."""
    local, remote = (f"{address[1]:04X}" for address in (line.link.getsockname(), line.link.getpeername()))
    for row in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = row.split()
        if {fields[1][-4:], fields[2][-4:]} == {local, remote}:
            queues = fields[4].split(":")
            if int(queues[0], 16) or (fields[1][-4:] == remote and int(queues[1], 16)):
                return 1
    return 0


# ---------------------------------------------------------------------------------------------- going out


def test_clients_that_do_not_read_their_answers_occupy_no_thread(web: Web) -> None:
    asked = b"GET /doors/large?bytes=20000000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with lines(web, 12) as slow:
        for line in slow:
            line.send(asked)
        assert is_alive(web)
        assert len(slow[0].answer().body) == 20_000_000
        assert slow[0].ask(HEALTH).status == 200


def test_an_answer_that_the_client_does_not_read_times_out(hasty: Web) -> None:
    with hasty.connect() as line:
        line.send(b"GET /doors/large?bytes=50000000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: connections(hasty) == 0, "the server has closed it")
        with pytest.raises((EOFError, ConnectionError)):
            line.answer()


def connections(web: Web) -> int:
    """Established connections on the server's side."""
    port = f":{web.port:04X}"
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(port) and row[3] == "01" for row in rows)


# ---------------------------------------------------------------------------------------------- threads that hang


@contextlib.contextmanager
def hanging(web: Web, folder: Path, count: int, threads: int) -> Iterator[list[Line]]:
    """Runs `count` requests that hang until the end of the block and occupy all `threads` threads."""
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    with lines(web, count) as held:
        for line in held:
            line.send(b"GET /doors/hang?fifo=%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % os.fsencode(fifo))
        try:
            wait_until(lambda: len(list(folder.glob("fifo.*"))) == threads, "all threads hang")
            yield held
        finally:

            def let_go() -> bool:
                with contextlib.suppress(OSError):
                    os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
                return all(map(has_answer, held))

            wait_until(let_go, "all are answered")


def has_answer(line: Line) -> bool:
    """Whether any byte has arrived."""
    line.link.setblocking(False)
    try:
        return bool(line.link.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        line.link.settimeout(PATIENCE)


def test_health_answers_while_all_threads_hang(web: Web, tmp_path: Path) -> None:
    with hanging(web, tmp_path, 8, threads=4), web.connect() as line:
        for path in (b"/healthz", b"/healthz/", b"/healthz?x=1"):
            assert line.ask(HEALTH.replace(b"/healthz", path)).json() == {"status": "ok"}


def test_a_request_that_waits_too_long_for_a_thread_is_refused_and_the_others_continue(
    hasty: Web, tmp_path: Path
) -> None:
    with hanging(hasty, tmp_path, 2, threads=2):
        with hasty.connect() as line:
            answer = line.ask(b"GET /docs/errors HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (answer.status, answer.json()["type"]) == (503, "service_unavailable")
        assert int(answer.headers["retry-after"]) > 0
        with hasty.connect() as line:
            page = line.ask(b"GET /u/token HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (page.status, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
    wait_until(lambda: is_alive(hasty), "its threads are free")
