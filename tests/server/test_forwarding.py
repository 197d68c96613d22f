"""Trust in headers about the scheme, the client's address and the path (docs/proxy.md#behind-a-proxy)."""

from __future__ import annotations

import pytest
import requests

from tests.support.servers import PATIENCE
from tests.support.web import Web

FORGED = {
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Ssl": "on",
    "X-Forwarded-Protocol": "ssl",
    "X-Forwarded-For": "192.0.2.7",
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Prefix": "/prefix",
    "Forwarded": "for=192.0.2.7;proto=https",
    "SCRIPT_NAME": "/doors",
    "Script-Name": "/doors",
    "PATH_INFO": "/healthz",
    "Path-Info": "/healthz",
    "REMOTE_ADDR": "192.0.2.7",
    "REMOTE_USER": "admin",
}


@pytest.mark.parametrize("name", FORGED)
def test_without_trusted_proxies_forwarded_headers_are_ignored(web: Web, name: str) -> None:
    came = requests.post(f"{web.base}/doors/what-came", headers={name: FORGED[name]}, timeout=PATIENCE).json()
    assert {name: came[name] for name in ("scheme", "client", "script", "path")} == {
        "scheme": "http",
        "client": "127.0.0.1",
        "script": "",
        "path": "/doors/what-came",
    }


@pytest.mark.parametrize("name", FORGED)
def test_plain_http_is_refused_whatever_its_headers(strict: Web, name: str) -> None:
    answer = requests.get(f"{strict.base}/v1/lists", headers={name: FORGED[name]}, timeout=PATIENCE)
    assert (answer.status_code, answer.json()["type"]) == (403, "ssl_required")
