"""One HTTP request, over connections that are kept and used again.

A `Transport` makes a request once. Retries, errors and pages are for its callers, so that a transport of tests
(`transactional_messaging.testing`) goes the same way as this one.
"""

from __future__ import annotations

import email.utils
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.cookiejar import DefaultCookiePolicy
from typing import Protocol
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from transactional_messaging.version import __version__

USER_AGENT = f"transactional-messaging/{__version__} Python/{platform.python_version()} requests/{requests.__version__}"
NEVER_BETTER = (requests.exceptions.SSLError, requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema)
"""Failures that another try would only repeat."""


@dataclass(frozen=True)
class Call:
    """A request: the path with its query, and the body as it is sent."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """A response; the names of its headers are in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_success(self) -> bool:
        """2xx."""
        return 200 <= self.status < 300

    @property
    def retry_after(self) -> float | None:
        """The seconds that `Retry-After` asks to wait; proxies write a date."""
        text = self.headers.get("retry-after", "").strip()
        if text.isdecimal():
            return float(text)
        try:
            moment = email.utils.parsedate_to_datetime(text)
        except ValueError:
            return None
        return max(0.0, (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds())


class NoAnswer(Exception):
    """The request got no answer; it may have been processed. `is_final`: another try would fail in the same way."""

    def __init__(self, text: str, *, is_final: bool) -> None:
        super().__init__(text)
        self.is_final = is_final


class Transport(Protocol):
    """What makes requests."""

    def send(self, call: Call) -> Answer:
        """Makes the request once. Raises `NoAnswer`."""

    def close(self) -> None:
        """Closes its connections."""


class Bearer(AuthBase):
    """Adds the key. Headers alone would be replaced by what a .netrc file says about the host."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._key}"
        return request


class HttpTransport:
    """Requests over pooled connections; threads may share it. A process that was forked gets connections of its own."""

    def __init__(self, base_url: str, key: str, timeout: tuple[float, float], pool_size: int) -> None:
        self._base_url, self._key, self._timeout, self._pool_size = base_url, key, timeout, pool_size
        self._host = urlsplit(base_url).netloc.rpartition("@")[2]
        self._process = os.getpid()
        self._session = self._open()

    def send(self, call: Call) -> Answer:
        """Makes the request once; redirects are not followed, since the API makes none."""
        if self._process != os.getpid():
            self._process, self._session = os.getpid(), self._open()
        try:
            response = self._session.request(
                call.method,
                self._base_url + call.path,
                data=call.body,
                headers=dict(call.headers),
                timeout=self._timeout,
                allow_redirects=False,
            )
        except requests.RequestException as error:
            # Its own text may have the query, which may have an address; the cause of this exception keeps it.
            text = f"{call.method} {call.path.partition('?')[0]} at {self._host}: {type(error).__name__}"
            raise NoAnswer(text, is_final=isinstance(error, NEVER_BETTER)) from error
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, response.content, headers)

    def close(self) -> None:
        """Closes the connections; the next request opens new ones."""
        self._session.close()

    def _open(self) -> requests.Session:
        session = requests.Session()
        session.auth = Bearer(self._key)
        session.headers.update({"Accept": "application/json", "User-Agent": USER_AGENT})
        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=()))
        adapter = HTTPAdapter(pool_connections=1, pool_maxsize=self._pool_size)
        session.mount(self._base_url, adapter)
        return session
