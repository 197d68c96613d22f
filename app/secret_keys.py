"""The keys of an installation: SECRET_KEY, which signs and encrypts, and those before it, which only verify and decrypt
(docs/secrets.md#rotating-secret_key); and the encryption of stored secrets with them
(docs/secrets.md#what-is-encrypted).

A key that nobody set is generated into DATA_DIR, and `secrets rotate` replaces it there while the service runs. So the
files are read again when they have changed: what a process reads may have been written under a key that is newer than
the process. It signs and encrypts with the one that it has started with.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import secrets
from functools import lru_cache
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from app.private_folder import sync_folder

FILE = "secret_key"
FALLBACKS_FILE = "secret_key_fallbacks"
LEAST_LENGTH = 32
_FINGERPRINT = b"transactional-messaging-service backup fingerprint 1\0"

SecretKeys = tuple[str, ...]
"""The first one signs and encrypts; all verify and decrypt."""


def parse_keys(text: str) -> SecretKeys:
    """Keys separated by commas; in a file also one to a line, where a key may have commas."""
    lines = text.splitlines()
    keys = tuple(key.strip() for key in (lines if len(lines) > 1 else text.split(",")) if key.strip())
    if not all(len(key) >= LEAST_LENGTH for key in keys):
        raise ValueError(f"must be keys of {LEAST_LENGTH} characters or more, separated by commas")
    return keys


def fingerprint(key: str) -> str:
    """A text that tells two keys apart, and nothing of either."""
    return hashlib.sha256(_FINGERPRINT + key.encode()).hexdigest()[:32]


def short_fingerprint(key: str) -> str:
    """A short fingerprint of a key, for people."""
    return fingerprint(key)[:8]


def all_keys(data_dir: Path, key: str, fallbacks: SecretKeys) -> SecretKeys:
    """The key, its fallbacks, and if it was generated, what is in the files beside it by now."""
    generated = generated_keys(data_dir)
    return tuple(dict.fromkeys((key, *fallbacks, *(generated if key in generated else ()))))


def generated_keys(data_dir: Path) -> SecretKeys:
    """The generated key and those before it; empty where none was generated."""
    return _read(data_dir, _state(data_dir / FILE), _state(data_dir / FALLBACKS_FILE))


def generated_key(data_dir: Path) -> str:
    """The key in the data folder, created by the first process; linked into place once it is complete."""
    path = data_dir / FILE
    if not path.exists():
        draft = _draft(path, secrets.token_urlsafe(48))
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    return path.read_text("ascii").strip()


def write_generated_keys(data_dir: Path, keys: SecretKeys) -> None:
    """Makes the first one the generated key, and the others its fallbacks. All of them are among the fallbacks before
    the first one is taken up, and stay there: however a process reads the two files meanwhile, it misses none. Raises
    `OSError`."""
    fallbacks = data_dir / FALLBACKS_FILE
    if len(keys) > 1 or fallbacks.exists():
        replace_file(fallbacks, "".join(f"{key}\n" for key in keys))
    replace_file(data_dir / FILE, keys[0])


def replace_file(path: Path, text: str) -> None:
    """Writes a private file in place of the one that was there, durably. Raises `OSError`."""
    _draft(path, text).replace(path)
    sync_folder(path.parent)


def _draft(path: Path, text: str) -> Path:
    """Its name is random: processes of several containers that share the folder may have the same id."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            draft.unlink()
            raise
    return draft


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


@lru_cache(maxsize=8)
def _read(data_dir: Path, *_states: tuple[int, int, int] | None) -> SecretKeys:
    """The keys of the files in that state. A key that is being written elsewhere is not half there: files are replaced
    as a whole."""
    lines: list[str] = []
    for name in (FILE, FALLBACKS_FILE):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            lines += (data_dir / name).read_text("ascii").splitlines()
    return tuple(dict.fromkeys(filter(None, map(str.strip, lines))))


PURPOSE = b"transactional-messaging-service stored secrets 1"
"""Binds the derived key to this use: SECRET_KEY also signs tokens, with other derived keys."""


class SecretUnreadable(Exception):
    """A stored secret that neither SECRET_KEY nor one of its fallbacks decrypts."""


def encrypt(secret_key: str, secret: str) -> str:
    """The secret as a Fernet token, to be stored."""
    return _fernet(secret_key).encrypt(secret.encode()).decode("ascii")


def decrypt(secret_keys: SecretKeys, stored: str) -> str:
    """The secret behind a stored token. Raises `SecretUnreadable` when it was stored under none of these keys."""
    return decrypt_with_key(secret_keys, stored)[1]


def decrypt_with_key(secret_keys: SecretKeys, stored: str) -> tuple[str, str]:
    """The key under which the secret was stored, and the secret. Raises `SecretUnreadable`."""
    for key in secret_keys:
        try:
            return key, _fernet(key).decrypt(stored).decode()
        except InvalidToken:
            continue
    raise SecretUnreadable("a stored secret was encrypted under another SECRET_KEY")


@lru_cache(maxsize=32)
def _fernet(secret_key: str) -> Fernet:
    derived = HKDF(SHA256(), length=32, salt=None, info=PURPOSE).derive(secret_key.encode())
    return Fernet(base64.urlsafe_b64encode(derived))
