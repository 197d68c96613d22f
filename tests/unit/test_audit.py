"""`make lint` audits the dependencies (docs/development.md#dependencies)."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import ClassVar

import pytest

from tests.support.servers import free_port
from tools import audit

ROOT = Path(__file__).parents[2]
ADVISORY = {
    "id": "GHSA-1",
    "modified": "2026-01-01T00:00:00Z",
    "summary": "Anybody may read it",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "flask"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "4.0"}]}],
        }
    ],
}


class Advisories(http.server.BaseHTTPRequestHandler):
    """The database of advisories, which knows one."""

    asked: ClassVar[list[tuple[str, str]]] = []

    def do_POST(self) -> None:
        """Which of the packages have advisories."""
        queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        self.asked.extend((query["package"]["name"], query["version"]) for query in queries)
        vulnerable = {"vulns": [{"id": "GHSA-1", "modified": "2026-01-01T00:00:00Z"}]}
        self._answer({"results": [vulnerable if query["package"]["name"] == "flask" else {} for query in queries]})

    def do_GET(self) -> None:
        """The advisory."""
        self._answer(ADVISORY)

    def _answer(self, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def advisories() -> Iterator[str]:
    """The URL of the database."""
    Advisories.asked.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Advisories)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def _lock(folder: Path, *pins: str) -> Path:
    lock = folder / "some.lock"
    lock.write_text("".join(f"{pin} \\\n    --hash=sha256:aa\n" for pin in pins), "utf-8")
    return lock


def test_a_known_vulnerability_fails_the_audit_and_is_named(
    advisories: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = _lock(tmp_path, "click==8.5.1", "flask==3.1.3", "psycopg[binary]==3.3.1 ; python_version < '4'")
    assert audit.audit(lock, "--service-url", advisories) == 1
    told = capsys.readouterr().out
    assert told.startswith("some.lock:\n")
    assert "flask 3.1.3 has 1 known vulnerability" in told
    assert "Fixed in: 4.0" in told
    assert sorted(Advisories.asked) == [("click", "8.5.1"), ("flask", "3.1.3"), ("psycopg", "3.3.1")]


def test_a_vulnerability_that_does_not_concern_us_is_ignored(
    advisories: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(audit.IGNORED_VULNERABILITIES, "GHSA-1", "nobody calls it")
    assert audit.audit(_lock(tmp_path, "flask==3.1.3"), "--service-url", advisories) == 0


def test_nothing_known_is_silent(advisories: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.audit(_lock(tmp_path, "click==8.5.1"), "--service-url", advisories) == 0
    assert capsys.readouterr().out == ""


def test_without_advisories_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = ("--service-url", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setattr(audit, "AUDIT", (*audit.AUDIT[:-1], *nowhere, audit.AUDIT[-1]))
    lock = str(_lock(tmp_path, "flask==3.1.3"))
    assert audit.main([lock, lock]) == 0
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 1
    assert told[0].startswith("the dependencies are not audited, since the database of advisories cannot be reached: ")


def test_an_audit_that_fails_otherwise_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no-such-option"):
        audit.audit(_lock(tmp_path, "flask==3.1.3"), "--no-such-option")


def test_every_line_of_the_locks_with_a_version_is_read() -> None:
    for name in ("requirements.lock", "requirements/dev.lock"):
        lock = (ROOT / name).read_text("utf-8")
        assert len(audit.PINNED.findall(lock)) == sum("==" in line.partition(";")[0] for line in lock.splitlines()), (
            name
        )
