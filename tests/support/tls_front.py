"""TLS before a server that knows none: what comes in encrypted goes to its port in the clear, and back."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from contextlib import AbstractContextManager

from tests.support.asyncio_servers import in_thread


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _serve(context: ssl.SSLContext, port: int) -> asyncio.Server:
    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pass_on(reader, back), _pass_on(to, writer))

    return await asyncio.start_server(join, "127.0.0.1", 0, ssl=context)


def tls_front(context: ssl.SSLContext, port: int) -> AbstractContextManager[int]:
    """The port on which it listens."""
    return in_thread(_serve(context, port))
