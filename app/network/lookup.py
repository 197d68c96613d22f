"""Name lookups that end at a deadline (docs/databases.md#name-servers).

The system's resolver waits as long as its own configuration says: with two name servers that do not answer, 20 seconds
by default. It cannot be interrupted, so it runs in a separate thread, which is abandoned at the deadline and ends when
the resolver gives up.
"""

from __future__ import annotations

import functools
import ipaddress
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

# Hosts that are addresses: nobody has to be asked for them.


def is_address(host: str) -> bool:
    """Whether the host is an IP address in its usual form."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def number_of(host: str) -> str | None:
    """The address that the host is, also in a form that only resolvers read, such as `127.1` or `0x7f000001`; None for
    a name."""
    if is_address(host):
        return host
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return None


Result = TypeVar("Result")


def look_up(host: str, seconds: float) -> list[str]:
    """The addresses of the host, in the order of the system's preference; for an address, itself.

    Raises `OSError` for a name that has none, and `TimeoutError`, which is one, for no answer within `seconds`.
    """
    if is_address(host):
        return [host]
    addresses = _in_thread(lambda: _addresses(host))
    try:
        return addresses.result(seconds)
    except TimeoutError:
        raise TimeoutError(f"no answer about {host} from the name server in {seconds:g} s") from None


def own_name(seconds: float) -> str:
    """The full name of this machine; its short one while the name server does not answer.

    Looked up once: where DNS is slow, a lookup per connection would delay mail.
    """
    try:
        return _own_name().result(seconds)
    except TimeoutError:
        return socket.gethostname()


@functools.cache
def _own_name() -> Future[str]:
    return _in_thread(socket.getfqdn)


def _addresses(host: str) -> list[str]:
    try:
        results = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(str(error)) from error
    return [str(address[0]) for *_, address in results]


def _in_thread(call: Callable[[], Result]) -> Future[Result]:
    """Starts the call. Its thread does not keep the process from ending, unlike one of an executor."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except OSError as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="name-lookup").start()
    return future
