"""Text messages over Kannel's HTTP interface `sendsms` (documented in docs/sms.md).

    kannel+http://user:password@host:13013/cgi-bin/sendsms

Kannel splits long texts and numbers the parts itself. It is asked to call `receipt_url` back with the end of each
message: `%d` and `%A` in it are Kannel's own escapes for the kind of receipt and for the network's words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote, urlencode

import urllib3
from urllib3.exceptions import HTTPError

from app.transports import urls
from app.transports.base import DeliveryResult, OutboundSms, TransportUrlError
from app.transports.sms.segments import count_segments, is_gsm

OPTIONS = ("timeout", "smsc")
DLR_MASK = 1 + 2 + 16
"""Receipts of the end: delivered, not delivered, refused by the network. Those on the way there say nothing new."""
REFUSALS = (400, 406, 413, 414, 422)
"""Kannel will not take this message. All other errors are trouble with the set-up or the gateway, which may pass."""
LONGEST_TIMEOUT = 600.0


@dataclass(frozen=True, slots=True)
class KannelSettings:
    """One gateway and how to speak with it; `timeout` is in seconds, for connecting and for the answer."""

    url: str
    user: str
    password: str = field(repr=False)
    timeout: float
    smsc: str | None


class KannelTransport:
    """Connections of all threads come from one pool, which renews what the gateway has closed."""

    def __init__(self, settings: KannelSettings) -> None:
        self._settings = settings
        self._pool = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=settings.timeout, read=settings.timeout), retries=False, maxsize=32
        )

    def connect(self) -> KannelTransport:
        """The pool is shared."""
        return self

    def send(self, message: OutboundSms) -> DeliveryResult:
        """Hand one text over. Nothing is sent twice by itself: a lost answer is a deferral."""
        target = f"{self._settings.url}?{urlencode(self._parameters(message))}"
        try:
            response = self._pool.request("GET", target, redirect=False)
        except HTTPError as error:
            return DeliveryResult.deferred(
                "no answer from the gateway", note=f"{self._settings.url}: {type(error).__name__}"
            )
        return _result(response.status, response.data.decode("utf-8", "replace"), message.text)

    def _parameters(self, message: OutboundSms) -> dict[str, str]:
        gsm = is_gsm(message.text)
        parameters = {
            "username": self._settings.user,
            "password": self._settings.password,
            "from": message.sender,
            "to": message.to,
            "text": message.text.encode("utf-8", "replace").decode(),
            "charset": "UTF-8",
            "coding": "0" if gsm else "2",
        }
        if self._settings.smsc:
            parameters["smsc"] = self._settings.smsc
        if message.receipt_url:
            parameters["dlr-mask"] = str(DLR_MASK)
            parameters["dlr-url"] = f"{message.receipt_url}?type=%d&answer=%A"
        return parameters

    def close(self) -> None:
        """Connections that are idle cost nothing and stay for the next message."""


def _result(status: int, body: str, text: str) -> DeliveryResult:
    reply = f"{status} {body.strip()}".strip()
    if 200 <= status < 300:
        return DeliveryResult.accepted(reply, segments=count_segments(text))
    if status in REFUSALS:
        return DeliveryResult.refused(reply)
    return DeliveryResult.deferred(reply)


def kannel_transport(url: str) -> KannelTransport:
    """The gateway that a `kannel+http://` or `kannel+https://` URL names; raises `TransportUrlError`."""
    parts = urls.split(url)
    given = urls.options(parts, OPTIONS)
    if not parts.hostname or not parts.username or parts.password is None:
        raise TransportUrlError(f"{urls.shown(parts)}: written kannel+http://user:password@host:13013/cgi-bin/sendsms")
    scheme = parts.scheme.removeprefix("kannel+")
    place = parts.netloc.rpartition("@")[2]
    return KannelTransport(
        KannelSettings(
            url=f"{scheme}://{place}{parts.path or '/cgi-bin/sendsms'}",
            user=unquote(parts.username),
            password=unquote(parts.password),
            timeout=urls.number(parts, "timeout", given.get("timeout", "30"), (0.1, LONGEST_TIMEOUT)),
            smsc=given.get("smsc"),
        )
    )
