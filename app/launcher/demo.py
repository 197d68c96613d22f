"""What only the demo needs: its key for the screen, and a receiver of its webhook on a port of the loopback address.

The receiver's port stands in the seeded webhook, so it is chosen once per data folder and kept there.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from app.auth import hash_token
from app.db.models import ApiKey
from app.seed.read import read_file
from app.services import Services
from app.settings import Settings, SettingsError, parse_port

SEED = Path(__file__).parent.parent / "demo" / "seed.yaml"


@dataclass(frozen=True, slots=True)
class Demo:
    """The parts of the demo seed that the launcher works with."""

    token: str
    receiver_port: int
    receiver_secret: str

    @property
    def substitutions(self) -> dict[str, str]:
        """What stands as `${NAME}` in the seed file."""
        return {"RECEIVER_PORT": str(self.receiver_port)}


def read(settings: Settings) -> Demo:
    """The demo of this data folder. Raises `SettingsError` for a wrong `RECEIVER_PORT`."""
    account = read_file(SEED, {})["accounts"][0]
    key = next(key for key in account["keys"] if key["access_level"] == "standard")
    return Demo(
        token=key["token"],
        receiver_port=_receiver_port(settings),
        receiver_secret=account["webhooks"][0]["secrets"][0]["secret"],
    )


def is_loaded(services: Services, demo: Demo) -> bool:
    """Whether the database holds the demo: its key is there and has not been revoked."""
    found = select(ApiKey.id).where(ApiKey.token_hash == hash_token(demo.token), ApiKey.revoked_time.is_(None))
    with services.database.read() as session:
        return session.scalar(found) is not None


def _receiver_port(settings: Settings) -> int:
    """The port kept in the data folder; at first `RECEIVER_PORT`, or the one after the API's, or any that is free."""
    kept = settings.data_dir / "receiver_port"
    wanted = _wanted_port()
    if not kept.exists():
        kept.write_text(f"{wanted or _free_port(settings.port + 1)}\n")
    return int(kept.read_text())


def _wanted_port() -> int | None:
    text = os.environ.get("RECEIVER_PORT", "").strip()
    try:
        return parse_port(text) if text else None
    except ValueError as error:
        raise SettingsError(f"RECEIVER_PORT={text}: {error}") from None


def _free_port(preferred: int) -> int:
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except (OSError, OverflowError):
                continue
            return int(probe.getsockname()[1])
    return preferred
