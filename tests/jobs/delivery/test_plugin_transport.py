"""Mail over the transport of an installed package (docs/plugins.md#custom-transports)."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.sends.delivery.drain import drain
from tests.jobs.delivery.conftest import Changed
from tests.support.plugins import install
from tests.support.rows import Rows

PIGEON = """
from pathlib import Path
from app.transports.base import DeliveryResult

class Pigeon:
    def __init__(self, loft):
        self.loft = loft
    def connect(self):
        return self
    def send(self, message):
        (self.loft / message.to).write_bytes(message.content)
        return DeliveryResult.accepted("flown")
    def close(self):
        pass

def from_url(url):
    return Pigeon(Path(url.removeprefix("pigeon://")))
"""


def test_a_plugin_connection_need_only_send_one_message_at_a_time(
    rows: Rows, make_worker: Changed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No pipelining without the connection's consent; one fast connection sends all messages."""
    install(tmp_path, monkeypatch, {"pigeon": "tms_pigeon:from_url"}, group="tms.transports", tms_pigeon=PIGEON)
    loft = tmp_path / "loft"
    loft.mkdir()
    people = [f"ann{number}@example.com" for number in range(20)]
    ids = rows.add_send(people)
    drain(make_worker(email_transport_url=f"pigeon://{loft}", send_connections=1))
    assert rows.states(ids) == ["delivered"] * 20
    assert sorted(path.name for path in loft.iterdir()) == sorted(people)
