"""Builds in which a guard is missing, each in one place, with the attack that must then get through.

`ATTACK_BROKEN` names one (`sitecustomize.py`).
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.breaking import Change


@dataclass(frozen=True, slots=True)
class Break:
    """One build: the module and the patch, the family that must notice, and the attack that gets through."""

    module: str
    change: Change
    family: str
    shows: str


BREAKS: dict[str, Break] = {}


def request() -> Any:
    """The request that is being answered. Not imported at the top: every process of the service imports this module."""
    return importlib.import_module("flask").request


def breaks(name: str, module: str, *, family: str, shows: str) -> Callable[[Change], Change]:
    """Registers the patch of a module under a name."""

    def add(change: Change) -> Change:
        BREAKS[name] = Break(module, change, family, shows)
        return change

    return add


@breaks("groups-of-anybody", "app.groups.read", family="isolation", shows="ids in paths")
def groups_of_anybody(read: Any) -> None:
    """A group is found by its id alone."""
    read_one, group = read.read_one, read.Group
    read.require_group = lambda _session, _account_id, _group_id: None
    read.read_one = lambda session, shape, query, found: read_one(session, shape, query, {group.id: found[group.id]})


@breaks("unchecked-addresses", "app.events.guarded_connection", family="ssrf", shows="names that change")
def unchecked_addresses(guarded_connection: Any) -> None:
    """The addresses of a name are checked at registration only."""
    guarded_connection.check_addresses = lambda _host, _addresses: None


@breaks("trusted-strangers", "app.http.networks", family="forwarded", shows="allowed networks")
def trusted_strangers(networks: Any) -> None:
    """Anybody may say which address a request comes from."""
    own = networks.client_address

    def claimed() -> Any:
        said = request().headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()
        return networks.ipaddress.ip_address(said) if said.count(".") == 3 else own()

    networks.client_address = claimed


@breaks("open-to-pages", "app.http.guards", family="http", shows="foreign pages")
def open_to_pages(guards: Any) -> None:
    """Pages of any origin may read answers."""
    finish = guards._finish

    def finished(response: Any) -> Any:
        response.headers["Access-Control-Allow-Origin"] = "*"
        return finish(response)

    guards._finish = finished


@breaks("lines-in-headers", "app.transports.email.headers", family="injection", shows="mails at the relay")
def lines_in_headers(headers: Any) -> None:
    """Texts are written into header fields as they are."""
    headers.one_line = lambda text: text
    headers._is_plain = lambda _text: True


@breaks("unsigned-links", "app.tracking.tokens", family="tokens", shows="links")
def unsigned_links(tokens: Any) -> None:
    """The signature of a link is not checked."""

    def content(_secret_keys: Any, _purpose: str, token: str) -> Any:
        try:
            return tokens.base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))[: -tokens.SIGNATURE_BYTES] or None
        except ValueError:
            return None

    tokens.verify_token = content


@breaks("no-rate-limit", "app.http.guards", family="floods", shows="rate limit")
def no_rate_limit(guards: Any) -> None:
    """Requests of a key are not counted."""
    guards.count_request = lambda _services, _principal: None


@breaks("patient-server", "app.http.server.limits", family="slow", shows="connections that are ended")
def patient_server(limits: Any) -> None:
    """A client may take as long as it wants for a header."""
    of = limits.Limits.of
    limits.Limits.of = lambda settings: dataclasses.replace(of(settings), header_seconds=3600.0)


@breaks("whole-paths-in-logs", "app.http.guards", family="secrets", shows="log")
def whole_paths_in_logs(guards: Any) -> None:
    """The log has paths as they were requested."""
    guards.loggable_path = lambda: request().path


@breaks("open-files", "app.private_folder", family="permissions", shows="files of the service")
def open_files(private_folder: Any) -> None:
    """Files are created as the umask of the operator says."""
    private_folder.UMASK = 0
    private_folder.make_private = lambda folder: folder.mkdir(parents=True, exist_ok=True)
