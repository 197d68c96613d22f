"""Forwards a port of the loopback address to a socket in the file system: `python -m tests.deploy.forward 5432 PATH`.
PostgreSQL and Redis of the tests listen on such sockets, which every network of the machine reaches."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until the end of one side."""
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def main(port: int, path: str) -> None:
    """Until it is ended."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other_reader, other_writer = await asyncio.open_unix_connection(path)
        await asyncio.gather(copy(reader, other_writer), copy(other_reader, writer))

    server = await asyncio.start_server(forward, "127.0.0.1", port)
    print("forwarding", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
