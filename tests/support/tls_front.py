"""TLS before a server that knows none: what comes in encrypted goes to its port in the clear, and back."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator


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


@contextlib.contextmanager
def tls_front(context: ssl.SSLContext, port: int) -> Iterator[int]:
    """The port on which it listens."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(_serve(context, port), loop).result(10)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end(server: asyncio.Server) -> None:
    """Its connections too: what is passed on ends with a cancellation."""
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
