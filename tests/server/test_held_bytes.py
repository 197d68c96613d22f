"""What the server holds for its clients is counted, both ways, and bounded; who holds the most goes first."""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.server.test_slow_clients import connections, has_answer, lines, unread
from tests.support.servers import wait_until
from tests.support.web import Line, Web

GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEALTH = GET % b"/healthz"
PAGE = GET % b"/docs/errors"
FILE = GET % b"/docs/assets/swagger-ui-bundle.js"
DESCRIPTION = GET % b"/docs/openapi.json"
POST = b"POST /doors/what-came HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
MEGABYTE = 1 << 20
ATTACKER = "127.0.0.2"
CLIENTS = 800


def resident(web: Web) -> int:
    """Bytes in memory of the only process that answers."""
    (pid,) = web.workers()
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def slowest(line: Line, count: int = 200) -> float:
    """Seconds that nearly all of some requests take at most."""
    took = []
    for _ in range(count):
        began = time.perf_counter()
        assert line.ask(PAGE).status == 200
        took.append(time.perf_counter() - began)
    return statistics.quantiles(took, n=20)[18]


@contextlib.contextmanager
def asked(web: Web, count: int, request: bytes) -> Iterator[list[Line]]:
    """Opens `count` clients which have sent a request and read nothing of the answer."""
    with lines(web, count) as slow:
        for line in slow:
            line.send(request)
        wait_until(lambda: all(map(has_answer, slow)), "all answers begin")
        yield slow


# ---------------------------------------------------------------------------------------------- going out


@pytest.mark.parametrize("request_", [FILE, DESCRIPTION, GET % b"/doors/large?bytes=900000"])
def test_hundreds_of_unread_answers_take_little_memory_and_no_time_of_others(web: Web, request_: bytes) -> None:
    with web.connect() as other:
        other.ask(request_)
        usual = max(slowest(other) for _ in range(3))
        before = resident(web)
        with asked(web, CLIENTS, request_) as slow:
            wait_until(lambda: slowest(other) < 2 * usual, "others are served as before")
            assert resident(web) - before < 60 * MEGABYTE
            # A busy machine may not come to all of them in time, and cuts off who has read nothing for that long.
            with contextlib.suppress(ConnectionError):
                assert slow[-1].answer().status in (200, 503)


def test_large_unread_answers_are_in_files(web: Web) -> None:
    before = resident(web)
    with asked(web, 3, GET % b"/doors/large?bytes=82000000"):
        wait_until(lambda: resident(web) - before < 60 * MEGABYTE, "they are in files")


def test_of_too_many_unread_bytes_the_oldest_answers_are_cut_off(thrifty: Web) -> None:
    request = GET % b"/doors/large?bytes=5000000"
    with asked(thrifty, 2, request) as slow, thrifty.connect() as other, asked(thrifty, 4, request) as more:
        wait_until(lambda: connections(thrifty) == 4, "three answers and the other client are left")
        assert other.ask(PAGE).status == 200
        assert [is_whole(line) for line in slow] == [False, False]
        assert [is_whole(line) for line in more].count(True) == 3


def is_whole(line: Line) -> bool:
    """Whether the answer arrives whole."""
    try:
        return line.answer().status == 200
    except (EOFError, ConnectionError):
        return False


def test_a_reader_who_stops_is_cut_off_however_much_was_read_before(hasty: Web) -> None:
    with hasty.connect() as line:
        line.send(GET % b"/doors/large?bytes=200000000")
        count = 0
        with contextlib.suppress(ConnectionError):  # on a busy machine this test, too, reads more slowly than it must
            for _ in range(100):
                count += len(line.link.recv(MEGABYTE))
        assert count > MEGABYTE
        wait_until(lambda: connections(hasty) == 0, "the server has closed it")


def test_an_answer_is_produced_as_it_is_read(web: Web, tmp_path: Path) -> None:
    made = tmp_path / "made"
    with web.connect() as line:
        line.send(GET % b"/doors/parts?parts=2000&bytes=100000&file=%b" % os.fsencode(made))
        wait_until(lambda: has_answer(line), "it has begun")
        assert count_without_change(made) < 500
        assert line.link.makefile("rb").read(10_000_000).count(b"x") > 9_000_000
        wait_until(lambda: made.stat().st_size > 100, "it goes on")
        assert count_without_change(made) < 600
    wait_until(lambda: made.read_bytes().endswith(b"E"), "who produces it is told of its end")


def count_without_change(file: Path) -> int:
    """The size of a file that grows no more."""
    sizes = [-1]

    def is_steady() -> bool:
        sizes.append(file.stat().st_size)
        time.sleep(0.05)  # the pace of looking
        return sizes[-1] == sizes[-2] == file.stat().st_size

    wait_until(is_steady, "the file stays as it is")
    return sizes[-1]


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_a_whole_answer_of_parts_arrives(web: Web, tmp_path: Path, version: bytes) -> None:
    path = b"/doors/parts?parts=300&bytes=7001&file=%b" % os.fsencode(tmp_path / "made")
    with web.connect() as line:
        line.send(b"GET %b HTTP/%b\r\nHost: localhost\r\nConnection: close\r\n\r\n" % (path, version))
        head, _, body = line.link.makefile("rb").read().partition(b"\r\n\r\n")
    assert body.count(b"x") == 300 * 7001
    assert (b"chunked" in head, body.endswith(b"\r\n0\r\n\r\n")) == (version == b"1.1",) * 2


def test_the_connection_is_kept_after_an_answer_of_parts(web: Web, tmp_path: Path) -> None:
    path = b"/doors/parts?parts=3&bytes=10&file=%b" % os.fsencode(tmp_path / "made")
    with web.connect() as line:
        line.send(GET % path + HEALTH)
        received = b""
        while not received.endswith(b"}\n") and b'"ok"}' not in received:
            received += line.link.recv(65536)
    assert b"x" * 30 in received
    assert received.count(b"HTTP/1.1 200") == 2


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_an_answer_that_fails_in_the_middle_ends_with_a_reset(web: Web, tmp_path: Path, version: bytes) -> None:
    path = b"/doors/parts?parts=30&bytes=100000&fails&file=%b" % os.fsencode(tmp_path / "made")
    with web.connect() as line:
        line.send(b"GET %b HTTP/%b\r\nHost: localhost\r\n\r\n" % (path, version))
        with pytest.raises(ConnectionResetError):
            list(iter(lambda: line.link.recv(65536), b""))
    assert "an answer ends before it is complete" in web.output()


def test_an_answer_that_fails_before_its_beginning_is_an_error(web: Web, tmp_path: Path) -> None:
    path = b"/doors/parts?parts=1&bytes=10&fails&file=%b" % os.fsencode(tmp_path / "made")
    with web.connect() as line:
        assert line.ask(GET % path).status == 503


# ---------------------------------------------------------------------------------------------- coming in


def test_empty_lines_are_not_counted_and_end_in_an_error(thrifty: Web) -> None:
    with thrifty.connect() as few, thrifty.connect() as many, thrifty.connect() as other:
        few.send(b"\r\n" * 4096)
        with contextlib.suppress(ConnectionError):
            many.send(b"\r\n" * (16 * MEGABYTE))
        assert many.answer().json()["developer_message"] == "More than 8,192 bytes of empty lines came before it."
        other.send(POST % 300_000 + b"x" * 300_000)
        assert other.answer().status == 200
        assert few.ask(HEALTH).status == 200


def test_a_flood_of_small_incomplete_bodies_costs_others_nothing(thrifty: Web) -> None:
    before = resident(thrifty)
    with contextlib.ExitStack() as kept:
        slow = [kept.enter_context(thrifty.connect(ATTACKER)) for _ in range(400)]
        for line in slow:
            line.send(POST % 70_000 + b"x" * 60_000)
            with thrifty.connect() as other:
                assert other.ask(POST % 100_000 + b"x" * 100_000).status == 200
        assert resident(thrifty) - before < 40 * MEGABYTE
        wait_until(lambda: any(map(has_answer, slow)), "some are refused")
        assert not has_answer(slow[-1])
        assert slow[0].answer().status == 503


def test_who_holds_little_is_not_refused_for_who_holds_much(thrifty: Web) -> None:
    with thrifty.connect() as small, contextlib.ExitStack() as kept:
        small.send(POST % 4_000_000 + b"x" * 3_900_000)
        wait_until(lambda: unread(small) == 0, "it is read")
        for _ in range(60):
            kept.enter_context(thrifty.connect(ATTACKER)).send(POST % 500_000 + b"x" * 400_000)
        small.send(b"x" * 100_000)
        assert small.answer().json()["length"] == 4_000_000


def test_at_the_limit_the_address_with_the_most_connections_loses_one(strict: Web) -> None:
    with strict.connect() as idle, contextlib.ExitStack() as kept:
        assert idle.ask(HEALTH).status == 200
        slow = [kept.enter_context(strict.connect(ATTACKER)) for _ in range(60)]
        assert slow[0].is_ended()
        assert idle.ask(HEALTH).status == 200


def test_at_the_limit_who_waits_after_an_answer_stays(strict: Web) -> None:
    with strict.connect() as idle:
        assert idle.ask(HEALTH).status == 200
        with lines(strict, 90) as slow:
            assert slow[0].is_ended()
            assert idle.ask(HEALTH).status == 200


def test_behind_a_proxy_the_clients_are_told_apart_by_what_it_says(proxied: Web) -> None:
    with proxied.connect() as small, contextlib.ExitStack() as kept:
        small.send(forwarded(POST % 4_000_000, "192.0.2.1") + b"x" * 3_900_000)
        wait_until(lambda: unread(small) == 0, "it is read")
        for _ in range(60):
            kept.enter_context(proxied.connect()).send(forwarded(POST % 500_000, "192.0.2.2") + b"x" * 400_000)
        small.send(b"x" * 100_000)
        assert small.answer().json()["length"] == 4_000_000


def forwarded(request: bytes, address: str) -> bytes:
    """The request as a proxy sends it for a client, who claims to be another."""
    return request.replace(b"\r\n\r\n", b"\r\nX-Forwarded-For: 192.0.2.9, %b\r\n\r\n" % address.encode())


def refused(slow: Sequence[Line]) -> int:
    """How many have an answer."""
    return sum(map(has_answer, slow))


def test_heads_that_do_not_end_are_bounded_by_memory(thrifty: Web) -> None:
    before = resident(thrifty)
    with lines(thrifty, 100) as slow:
        for line in slow:
            with contextlib.suppress(ConnectionError):
                line.send(b"GET /" + b"x" * 200_000)
        wait_until(lambda: refused(slow) > 50, "most are refused")
        assert resident(thrifty) - before < 40 * MEGABYTE
        with thrifty.connect("127.0.0.3") as other:
            assert other.ask(HEALTH).status == 200


def test_a_socket_of_the_server_holds_little_besides(web: Web) -> None:
    with web.connect() as line:
        line.link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.send(FILE)
        wait_until(lambda: has_answer(line), "it has begun")
        assert waiting_to_be_sent(web) < MEGABYTE


def waiting_to_be_sent(web: Web) -> int:
    """Bytes that the system keeps for the server's clients."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(row[4].split(":")[0], 16) for row in rows if row[1].endswith(f":{web.port:04X}"))
