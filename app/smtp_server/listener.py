"""A server for SMTP and its sessions, of which there are only so many: of one address, and at all
(docs/inbound.md#limits)."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence

from app.smtp_server.arriving import IncomingMail, Store
from app.smtp_server.session import BoundedSession

logger = logging.getLogger(__name__)

MAX_SESSIONS = 300
MAX_SESSIONS_OF_NETWORK = 100
"""Sessions of one address, or of one IPv6 network."""
NUMBER_OF_OTHER_FILES = 100
"""Files and connections of the process besides its sessions, each of which may have two."""
RECEIVE_BUFFER_BYTES = 32 * 1024
"""Bytes of one session that the system keeps until they are read (it doubles the number), and so those that one reading
returns."""
TOO_MANY_SESSIONS = b"421 4.3.2 too many sessions, try again later\r\n"
HAND_OVER_SECONDS = 30.0
"""Seconds for messages that are on their way when newer code takes over; clients wait minutes for a greeting."""
HAND_OVER_PAUSE = 0.1


class BoundedListener(ABC):
    """A server and its sessions. What they accept is up to the class that is derived from it."""

    def __init__(self) -> None:
        self.hostname = socket.gethostname()
        self.store = Store()
        self.servers: list[asyncio.Server] = []
        self._sessions: set[BoundedSession] = set()
        self._most = _most_sessions()

    @abstractmethod
    def new_session(self) -> BoundedSession:
        """A session of a client that has just connected."""

    @abstractmethod
    def incoming(self, to: Sequence[str]) -> IncomingMail:
        """Where a mail to these recipients is kept while it arrives."""

    @abstractmethod
    async def take(self, session: BoundedSession, raw: bytes, to: Sequence[str]) -> str:
        """The answer to a mail that has arrived."""

    async def listen(self, host: str, port: int, sockets: Sequence[socket.socket] = ()) -> None:
        """Listens at the address, or on sockets that were handed over. Raises `OSError` for an address that cannot be
        listened on."""
        loop = asyncio.get_running_loop()
        if sockets:
            self.servers = [await loop.create_server(self._begin_session, sock=each) for each in sockets]
        else:
            self.servers = [await loop.create_server(self._begin_session, host, port)]
        for each in (each for server in self.servers for each in server.sockets):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)

    def _begin_session(self) -> BoundedSession:
        session = self.new_session()
        session.sessions = self
        return session

    def begun(self, session: BoundedSession) -> None:
        """Counts a session. Where there are too many, of its network or at all, the one that has waited for its client
        the longest ends, of the network that has the most; the new one ends if none of them waits."""
        self._sessions.add(session)
        network_sessions = [each for each in self._sessions if each.network == session.network]
        if len(network_sessions) > MAX_SESSIONS_OF_NETWORK:
            self._end_of(network_sessions, session)
        elif len(self._sessions) > self._most:
            self._end_of(list(self._sessions), session)

    def _end_of(self, sessions: Sequence[BoundedSession], new: BoundedSession) -> None:
        counts = Counter(each.network for each in self._sessions)
        waiting = [each for each in sessions if each is not new and not each.is_taking]
        chosen = max(waiting, key=lambda each: (counts[each.network], -each.waits_since), default=new)
        logger.info("too many sessions: one of %s was ended", chosen.network)
        self._sessions.discard(chosen)
        chosen.end(TOO_MANY_SESSIONS)

    def ended(self, session: BoundedSession) -> None:
        """Counts it no more."""
        self._sessions.discard(session)

    async def hand_over(self) -> list[int]:
        """Stops accepting, ends the sessions once no message is on its way, and returns descriptors of the sockets, at
        which new connections wait."""
        kept = [os.dup(each.fileno()) for server in self.servers for each in server.sockets]
        self.close()
        until = asyncio.get_running_loop().time() + HAND_OVER_SECONDS
        while self._sessions and asyncio.get_running_loop().time() < until:
            for session in tuple(self._sessions):
                session.end_if_idle()
            await asyncio.sleep(HAND_OVER_PAUSE)
        return kept

    def close(self) -> None:
        """Stops listening."""
        for server in self.servers:
            server.close()


def _most_sessions() -> int:
    """How many sessions the limit of open files allows."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        MAX_SESSIONS
        if files == resource.RLIM_INFINITY
        else max(1, min(MAX_SESSIONS, (files - NUMBER_OF_OTHER_FILES) // 2))
    )
