"""The SECRET_KEY of a backup, and its fallbacks: without them, what is stored encrypted cannot be read, and the links
in mails that were sent lead nowhere."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from app.backup.archive import ArchiveReader
from app.backup.manifest import FALLBACKS, SECRET_KEY, Manifest, NotABackup
from app.secret_keys import FALLBACKS_FILE, FILE, SecretKeys, fingerprint, generated_keys, write_generated_keys
from app.sends.outcomes.attempt_result import journal_folder
from app.settings import Settings


class OtherSecretKey(Exception):
    """This installation has another SECRET_KEY than the one of the backup, which cannot be installed."""


def keys_to_install(settings: Settings, archive: ArchiveReader, *, any_key: bool) -> SecretKeys | None:
    """The keys of the backup, if they take the place of the one that was generated here; None if this installation
    keeps its own: it has them all, or `any_key` is accepted. Raises `OtherSecretKey`, `NotABackup`."""
    manifest = archive.manifest
    fingerprints = set(map(fingerprint, settings.secret_keys))
    has_all = fingerprints >= {manifest.secret_key, *manifest.secret_key_fallbacks}
    if any_key or (has_all and not _are_half_installed(settings, manifest)):
        return None
    is_included = SECRET_KEY in manifest.files
    if not is_included or not _is_generated(settings):
        raise OtherSecretKey(_what_to_do(is_included=is_included, lacks_first=manifest.secret_key not in fingerprints))
    keys = tuple(_text(archive, SECRET_KEY).split("\n")[:1])
    if FALLBACKS in manifest.files:
        keys += tuple(_text(archive, FALLBACKS).splitlines())
    if list(map(fingerprint, keys)) != [manifest.secret_key, *manifest.secret_key_fallbacks]:
        raise NotABackup("its secret key does not match its manifest")
    return keys


def _what_to_do(*, is_included: bool, lacks_first: bool) -> str:
    way = "unset SECRET_KEY to use the key in the backup, or set" if is_included else "set"
    if lacks_first:
        return (
            f"SECRET_KEY differs from the key of the backup: {way} SECRET_KEY to the old key of the installation, "
            "or add the old key to SECRET_KEY_FALLBACKS"
        )
    return f"a fallback key of the backup is missing here: {way} SECRET_KEY_FALLBACKS to the value of the installation"


def _text(archive: ArchiveReader, name: str) -> str:
    return archive.read(name).decode("ascii", "replace")


def install_keys(settings: Settings, keys: SecretKeys, *, keeps_journals: bool) -> Callable[[], None]:
    """Puts the keys into the data folder, in place of what was generated, which is kept beside it; returns what undoes
    it. Unless it keeps them, journals of the installation that was here are set aside first: under the keys of the
    backup they would count as those of its own installation, if it is restored again after a kill."""
    suffix = f"{int(time.time())}{secrets.randbelow(10**6):06}"
    journals = journal_folder(settings)
    aside = journals.with_name(f"{journals.name}.{suffix}")
    if journals.exists() and not keeps_journals:
        journals.rename(aside)
    kept = {}
    for name in (FALLBACKS_FILE, FILE):
        path = settings.data_dir / name
        if path.exists():
            kept[path] = path.with_name(f"{name}.{suffix}")
            kept[path].hardlink_to(path)

    def undo() -> None:
        for path, copy in kept.items():
            copy.replace(path)
        if settings.data_dir / FALLBACKS_FILE not in kept:
            (settings.data_dir / FALLBACKS_FILE).unlink(missing_ok=True)
        if aside.exists():
            aside.rename(journals)

    try:
        write_generated_keys(settings.data_dir, keys)
    except BaseException:
        undo()
        raise
    return undo


def delete_journals_aside(settings: Settings) -> None:
    """Deletes the journals of an installation that a restore has replaced."""
    journals = journal_folder(settings)
    for aside in journals.parent.glob(f"{journals.name}.*"):
        shutil.rmtree(aside, ignore_errors=True)


def _are_half_installed(settings: Settings, manifest: Manifest) -> bool:
    """Whether a restore of this backup was killed between the two files: its keys are among the fallbacks already."""
    fallbacks = _lines(settings.data_dir / FALLBACKS_FILE)[:1]
    is_first = fingerprint(settings.secret_key) == manifest.secret_key
    return not is_first and list(map(fingerprint, fallbacks)) == [manifest.secret_key]


def _lines(path: Path) -> list[str]:
    return path.read_text("ascii", "replace").splitlines() if path.exists() else []


def _is_generated(settings: Settings) -> bool:
    return settings.secret_key in generated_keys(settings.data_dir)
