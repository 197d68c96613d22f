"""The demo: its key, which the screen shows, and the receiver of its webhook on a loopback port.

The receiver's port is part of the seeded webhook's URL, so it is chosen once per data folder and kept there.

The keys of the seed file are published. If others can reach the service, they are replaced by random ones before the
API starts, and no process accepts them (app/accounts/auth.py).
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlalchemy import select

from app.accounts.auth import hash_token, new_token
from app.accounts.keys import replace_token
from app.db.models import ApiKey
from app.seed.read import read_file
from app.services import Services
from app.settings import Settings, SettingsError, parse_port

SEED = Path(__file__).parent.parent / "demo" / "seed.yaml"


@dataclass(frozen=True, slots=True)
class Demo:
    """The parts of the demo seed that the launcher needs."""

    token: str = field(repr=False)
    receiver_port: int
    receiver_secret: str = field(repr=False)
    published: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The tokens of the seed file: hash -> the key's name."""

    @property
    def substitutions(self) -> dict[str, str]:
        """The values of `${NAME}` in the seed file."""
        return {"RECEIVER_PORT": str(self.receiver_port)}


def read(settings: Settings) -> Demo:
    """The demo of this data folder. Raises `SettingsError` for a wrong `RECEIVER_PORT`."""
    account = read_file(SEED, {})["accounts"][0]
    key = next(key for key in account["keys"] if key["access_level"] == "standard")
    return Demo(
        token=key["token"],
        receiver_port=_receiver_port(settings),
        receiver_secret=account["webhooks"][0]["secrets"][0]["secret"],
        published={hash_token(key["token"]): key["name"] for key in account["keys"]},
    )


def loaded(services: Services, demo: Demo) -> Demo | None:
    """The demo with the key that is valid, the published one or the installation's own; None if the database has
    neither, or they are revoked."""
    own = _read_keys(services.settings).get(demo.published.get(hash_token(demo.token), ""))
    in_force = select(ApiKey.id).where(ApiKey.revoked_time.is_(None), ApiKey.valid_until.is_(None))
    with services.database.read() as session:
        for token in filter(None, (own, demo.token)):
            if session.scalar(in_force.where(ApiKey.token_hash == hash_token(token))) is not None:
                return replace(demo, token=token)
    return None


def replace_published_keys(services: Services, demo: Demo) -> int:
    """Replaces the published tokens of the demo's keys with random ones, which are stored in the data folder. Returns
    the number of replaced keys."""
    known = select(ApiKey).where(ApiKey.token_hash.in_(demo.published), ApiKey.revoked_time.is_(None))
    with services.database.write() as transaction:
        keys = list(transaction.scalars(known))
        if keys:
            own = {key.name: new_token() for key in keys}
            _keep_keys(services.settings, own)
            for key in keys:
                replace_token(transaction, key, own[key.name])
    return len(keys)


def kept_keys(settings: Settings) -> Path:
    """The file with the installation's own demo keys: name -> token."""
    return settings.data_dir / "demo_keys.json"


def _read_keys(settings: Settings) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads(kept_keys(settings).read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise SettingsError(f"{kept_keys(settings)}: cannot be read: {error}") from None
    return found


def _keep_keys(settings: Settings, own: Mapping[str, str]) -> None:
    file = kept_keys(settings)
    draft = file.with_suffix(".new")
    text = json.dumps({**_read_keys(settings), **own}, indent=2)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
        opened.write(text)
    draft.rename(file)


def _receiver_port(settings: Settings) -> int:
    """The port stored in the data folder; on the first start `RECEIVER_PORT`, the one after the API's, or any free
    one."""
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
