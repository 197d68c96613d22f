"""Proxies in front of a server: TLS for a server without it, or TCP for one that has only a Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from tests.support.asyncio_servers import in_thread

Connect = Callable[[], Coroutine[Any, Any, tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _close(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _serve(context: ssl.SSLContext | None, connect: Connect) -> asyncio.Server:
    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to, back = await connect()
        try:
            await asyncio.gather(_pass_on(reader, back), _pass_on(to, writer))
        finally:
            await _close(writer, back)

    return await asyncio.start_server(join, "127.0.0.1", 0, ssl=context)


def tls_front(context: ssl.SSLContext, port: int) -> AbstractContextManager[int]:
    """Runs a TLS proxy; yields its port."""
    return in_thread(_serve(context, partial(asyncio.open_connection, "127.0.0.1", port)))


def tcp_front(path: str) -> AbstractContextManager[int]:
    """Runs a TCP proxy for the Unix socket of a server; yields its port."""
    return in_thread(_serve(None, partial(asyncio.open_unix_connection, path)))
