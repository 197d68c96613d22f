"""The SECRET_KEY of a backup: without it, what is stored encrypted cannot be read, and the links in mails that were
sent lead nowhere."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

from app.backup.archive import ArchiveReader
from app.backup.manifest import SECRET_KEY, NotABackup, fingerprint
from app.settings import Settings


class OtherSecretKey(Exception):
    """This installation has another SECRET_KEY than the one of the backup, which cannot be installed."""


def key_to_install(settings: Settings, archive: ArchiveReader, *, any_key: bool) -> str | None:
    """The key of the backup, if it takes the place of the one that was generated here; None if this installation keeps
    its own: it is the same, or `any_key` is accepted. Raises `OtherSecretKey`, `NotABackup`."""
    wanted = archive.manifest.secret_key
    if any_key or fingerprint(settings.secret_key) == wanted:
        return None
    is_included = SECRET_KEY in archive.manifest.files
    if not is_included or not _is_generated(settings):
        way = "unset SECRET_KEY, and that in the backup is taken; or set" if is_included else "set"
        raise OtherSecretKey(
            f"SECRET_KEY is not the one of the backup: {way} SECRET_KEY to the one that the installation had"
        )
    key = archive.read(SECRET_KEY).decode("ascii", "replace")
    if fingerprint(key) != wanted:
        raise NotABackup("its secret key is not the one that its manifest names")
    return key


@contextmanager
def installed_key(settings: Settings, key: str) -> Iterator[None]:
    """Puts the key into the data folder, in place of the generated one, which is kept beside it; undone if the block
    raises."""
    path = settings.data_dir / "secret_key"
    kept = path.with_name(f"secret_key.{int(time.time())}{secrets.randbelow(10**6):06}")
    draft = path.with_name(f".secret_key.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    os.link(path, kept)
    draft.replace(path)
    try:
        yield
    except BaseException:
        kept.replace(path)
        raise


def _is_generated(settings: Settings) -> bool:
    path = settings.data_dir / "secret_key"
    return path.is_file() and path.read_text("ascii", "replace").strip() == settings.secret_key
