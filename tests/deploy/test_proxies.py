"""The service behind nginx, Caddy and HAProxy, as `deploy/` configures them (docs/proxy.md#behind-a-proxy)."""

from __future__ import annotations

import http.client
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from app import create_app
from app.db.migrate import upgrade
from app.http.context import EXTENSION
from app.services import Services
from app.settings import Settings
from tests.conftest import test_settings
from tests.deploy.proxies import PATH, PROXIES, Ports, checked, is_installed
from tests.support.certificates import Authority
from tests.support.servers import PATIENCE, free_port, short_folder, wait_until
from tests.support.tenants import new_tenant
from tests.support.web import Web, web_server

LARGEST = Settings().max_request_bytes
FORGED = {"X-Forwarded-For": "198.51.100.7", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "forged.example"}


@dataclass(frozen=True)
class Front:
    """A proxy in front of the service."""

    name: str
    http: str
    https: str
    trust: Path
    web: Web

    def ask(self, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> requests.Response:
        """The answer over https."""
        method = "GET" if body is None else "POST"
        return requests.request(
            method, self.https + path, data=body, headers=headers, verify=str(self.trust), timeout=PATIENCE
        )

    def answers(self) -> bool:
        """Whether the service answers behind it."""
        try:
            return self.ask("/healthz").status_code == 200
        except requests.RequestException:
            return False


@pytest.fixture(scope="module")
def settings(redis_url: str) -> Iterator[Settings]:
    with short_folder() as folder:
        made = test_settings(folder, DATABASE_URL=f"sqlite:///{folder}/tms.sqlite3", REDIS_URL=redis_url)
        upgrade(made.database_url)
        yield made


@pytest.fixture(scope="module")
def tenants(settings: Settings) -> dict[str, str]:
    """The keys of two accounts by the network from which they may be used."""
    app = create_app(settings)
    networks = {"here": ["127.0.0.0/8", "::1/128"], "there": ["198.51.100.0/24"]}
    keys_by_name = {
        name: new_tenant(app, allowed_networks=allowed_networks).tokens["standard"]
        for name, allowed_networks in networks.items()
    }
    services: Services = app.extensions[EXTENSION]
    services.database.close()
    services.redis.close()
    return keys_by_name


@pytest.fixture(scope="module")
def web(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """The service, which requires https and trusts one proxy."""
    behind = {"TRUSTED_PROXIES": "1", "PUBLIC_URL": "https://localhost"}
    with web_server(settings, tmp_path_factory.mktemp("web"), **behind) as server:
        yield server


@pytest.fixture(scope="module", params=PROXIES)
def front(request: pytest.FixtureRequest, web: Web, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """Checks the configuration, and runs the proxy with it."""
    name = request.param
    if not is_installed(name):
        pytest.skip(f"there is no {name}")
    folder = tmp_path_factory.mktemp(name)
    authority, ports = Authority(folder), Ports(free_port(), free_port(), web.port)
    authority.server("localhost")
    proxy = PROXIES[name](folder, folder / "localhost.pem", ports)
    assert checked(proxy) == ""
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(proxy.run, env={"PATH": PATH, **proxy.environ}, stdout=log, stderr=log)
    try:
        trust = authority.write(folder / "authority.pem")
        made = Front(name, f"http://localhost:{ports.http}", f"https://localhost:{ports.https}", trust, web)
        wait_until(lambda: process.poll() is not None or made.answers(), f"{name} answers")
        assert process.poll() is None, (folder / "log").read_text()
        yield made
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_what_a_client_claims_of_itself_does_not_reach_the_service(front: Front, tenants: dict[str, str]) -> None:
    """The one account may be used from this machine only, the other from the address that the client claims."""
    answers = {
        name: front.ask("/v1/lists", {"Authorization": f"Bearer {token}", **FORGED}) for name, token in tenants.items()
    }
    assert {name: answer.status_code for name, answer in answers.items()} == {"here": 200, "there": 403}
    assert "forged.example" not in answers["here"].text


def test_a_request_without_tls_is_not_taken_for_one_with(front: Front) -> None:
    answer = requests.get(
        front.http + "/v1/lists", headers={"X-Forwarded-Proto": "https"}, allow_redirects=False, timeout=PATIENCE
    )
    if front.name == "caddy":
        assert (answer.status_code, answer.headers["Location"][:8]) == (308, "https://")
    else:
        assert "ssl_required" in answer.text
    assert "ssl_required" not in front.ask("/v1/lists").text


def answer_from(front: Front, source: str, path: str) -> http.client.HTTPResponse:
    """The head of the answer to a client with that address. The path reaches the proxy as it is."""
    port = int(front.https.rpartition(":")[2])
    trust = ssl.create_default_context(cafile=str(front.trust))
    connection = http.client.HTTPSConnection(
        "localhost", port, context=trust, timeout=PATIENCE, source_address=(source, 0)
    )
    with closing(connection):
        connection.request("GET", path)
        return connection.getresponse()


@pytest.mark.parametrize("path", ["/metrics", "/metrics/", "/%6Detrics", "/metrics%2f", "//metrics"])
def test_the_counts_of_the_installation_are_not_public(front: Front, path: str) -> None:
    """The proxy itself answers: the service would name the request."""
    answer = answer_from(front, "127.0.0.1", path)
    assert (answer.status, answer.getheader("X-Request-Id")) == (404, None)


@pytest.mark.parametrize("path", ["/console", "/console/messages", "/%63onsole", "//console", "/%2Fconsole"])
def test_only_networks_inside_reach_the_console(front: Front, path: str) -> None:
    """A client with an address that the configuration does not name gets what unknown paths get."""
    assert answer_from(front, "127.0.0.1", path).status != 404
    assert answer_from(front, "127.0.0.9", path).status == 404
    assert answer_from(front, "127.0.0.9", "/v1/lists").status == 401


def announced(front: Front, length: int) -> int:
    """The status of the answer to a request of which only the header is sent."""
    port = int(front.https.rpartition(":")[2])
    trust = ssl.create_default_context(cafile=str(front.trust))
    connection = http.client.HTTPSConnection("localhost", port, context=trust, timeout=PATIENCE)
    with closing(connection):
        connection.putrequest("POST", "/v1/transactional-sends")
        connection.putheader("Content-Length", str(length))
        connection.endheaders()
        return connection.getresponse().status


def test_the_largest_request_gets_through_and_no_larger_one(front: Front, tenants: dict[str, str]) -> None:
    """The service refuses the one for what it says, the other is refused for its size."""
    key = {"Authorization": f"Bearer {tenants['here']}"}
    largest = front.ask("/v1/transactional-sends", key, b"x" * LARGEST)
    assert largest.status_code == 400, largest.text[:500]
    assert largest.json()["code"] == "invalid_request"
    if front.name == "caddy":  # it passes a header on with the body only, and may end the connection meanwhile
        with suppress(requests.ConnectionError):
            assert front.ask("/v1/transactional-sends", key, b"x" * (LARGEST + 1)).status_code == 413
    else:
        assert announced(front, LARGEST + 1) == 413
