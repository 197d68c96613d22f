"""Redaction of what a tenant must not read: the hosts, ports and paths of this installation
(docs/requests.md#confidentiality).

The service's own texts keep them separate (`note` of a result). But a relay or a gateway also belongs to the
installation, and names itself in its replies; so do other machines of the operator in inbound reports. Such names are
replaced in all texts of other servers that a tenant sees: names in the settings, private addresses, and names that no
public name server knows.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from app.addresses import address_forms, email_key
from app.redis_urls import server_urls
from app.settings import Settings

HIDDEN_NAME = "[hidden]"
HIDDEN_ADDRESS = "[address]"
"""Stands in the log in place of a recipient's address."""
_INTERNAL_DOMAINS = r"internal|intranet|local|localdomain|lan|corp|home\.arpa"
_PORT = r"(?::\d{1,5}\b)?"
_START_OF_NAME = r"(?<![\w@.-])"
"""Domains of email addresses stay: they are the tenant's."""
_IP = r"(?:\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)|[0-9a-fA-F]*:[0-9a-fA-F:.]+)"
_ADDRESS = re.compile(rf"(?:\[{_IP}\]|(?<![\w.:]){_IP}){_PORT}")
_NAMES = re.compile(
    rf"{_START_OF_NAME}(?:(?:[\w-]+\.)+(?:{_INTERNAL_DOMAINS})|localhost(?:\.\w+)?)(?![\w-]){_PORT}", re.IGNORECASE
)


class Redaction:
    """Replaces the hosts, ports and paths of an installation in texts."""

    def __init__(self, hosts: frozenset[str], paths: frozenset[str]) -> None:
        self._name_pattern = re.compile("|".join([*_paths(paths), *_hosts(hosts), "(?!)"]), re.IGNORECASE)

    @classmethod
    def of(cls, settings: Settings, *further: str) -> Redaction:
        """The redaction for an installation with these settings and the URLs of `further` transports."""
        urls = [*settings.email_transport_url.split(","), settings.sms_transport_url, *further]
        redis_urls = server_urls(settings.redis_url)
        return _redaction(*urls, settings.database_url, *redis_urls, settings.data_dir.as_uri())

    def redact(self, text: str) -> str:
        """The text without names of the installation."""
        return _ADDRESS.sub(_hidden_unless_public, _NAMES.sub(HIDDEN_NAME, self._name_pattern.sub(HIDDEN_NAME, text)))


def without_address(text: str | None, address: str | None) -> str | None:
    """A text of another server for the log, without the address of the recipient in any form, such as that of the
    envelope: lines of a log cannot be erased when the person is forgotten."""
    if not text or not address:
        return text
    for form in dict.fromkeys((address, *address_forms(email_key(address)))):
        if form.lower() in text.lower():
            text = re.sub(re.escape(form), HIDDEN_ADDRESS, text, flags=re.IGNORECASE)
    return text


@lru_cache(maxsize=16)
def _redaction(*urls: str) -> Redaction:
    parts = [urlsplit(url.strip()) for url in urls]
    hosts = {part.hostname for part in parts if part.hostname}
    paths = {unquote(part.path) for part in parts if not part.hostname and len(Path(unquote(part.path)).parts) > 1}
    return Redaction(frozenset(hosts), frozenset(paths))


def _paths(paths: frozenset[str]) -> Iterator[str]:
    """A folder, with the files in it."""
    for path in sorted(paths, key=len, reverse=True):
        yield rf"{re.escape(path)}(?:/[^\s'\"<>:;,]*)?(?![\w-])"


def _hosts(hosts: frozenset[str]) -> Iterator[str]:
    """A host, with names below it and a port. A plain word, such as `relay`, is a host only with its port."""
    for host in sorted(hosts, key=len, reverse=True):
        is_word = host.isalpha()
        yield rf"{_START_OF_NAME}(?:[\w-]+\.)*{re.escape(host)}(?![\w-]|\.\w){':' if is_word else ''}" + (
            r"\d{1,5}\b" if is_word else _PORT
        )


def _hidden_unless_public(match: re.Match[str]) -> str:
    written = match[0]
    for text in (written, written.rpartition(":")[0]):
        try:
            address = ipaddress.ip_address(text.strip("[]"))
        except ValueError:
            continue
        return written if address.is_global else HIDDEN_NAME
    return written
