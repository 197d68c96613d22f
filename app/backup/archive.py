"""The file of a backup: a zip archive that is written and read in a stream, so that no table need fit into the memory.

It appears under its name only once it is complete and on the disk. Until then it has a hidden name, and a lock that the
kernel releases when its writer dies.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from app.backup.manifest import NAME, Manifest, NotABackup, StoredFile, parse_manifest
from app.private_folder import sync_folder

UNFINISHED_SUFFIX = ".unfinished"
COMPRESSION_LEVEL = 1
"""The level of compression: higher ones take several times as long and save little."""
BLOCK_BYTES = 256 * 1024
FREE_BYTES = 256 * 1024 * 1024
"""Bytes that a backup leaves free where the data of the service may be: a full disk would stop the service."""
NO_LINK_ERRORS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
"""Errors of file systems without hard links, as shares and sticks may be."""
DAMAGED_CONTENT_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError)
DAMAGED_ARCHIVE_ERRORS = (*DAMAGED_CONTENT_ERRORS, NotImplementedError, RuntimeError, ValueError, OSError)
"""What the library raises when it reads, or opens, an archive whose bytes are not those that were written."""
MAX_MANIFEST_BYTES = 16 * 1024 * 1024
"""Bytes; that of a backup has some kilobytes."""


class ArchiveExists(Exception):
    """There is a file of that name already."""


class ArchiveWriter:
    """Adds files to the archive, each in one pass. `check` is called before each block."""

    def __init__(self, archive: zipfile.ZipFile, check: Callable[[], None]) -> None:
        self._archive = archive
        self._check = check
        self.files: dict[str, StoredFile] = {}

    def add(self, name: str, blocks: Iterable[tuple[bytes, int]], *, rows: bool = False) -> None:
        """Adds a file of blocks, each with the number of its rows."""
        checksum, size, count = hashlib.sha256(), 0, 0
        with self._archive.open(self._described(name), "w", force_zip64=True) as file:
            for block, block_rows in blocks:
                self._check()
                file.write(block)
                checksum.update(block)
                size += len(block)
                count += block_rows
        self.files[name] = StoredFile(size, checksum.hexdigest(), count if rows else None)

    def finish(self, manifest: Manifest) -> None:
        """Adds the manifest."""
        self._archive.writestr(self._described(NAME), manifest.document())

    @staticmethod
    def _described(name: str) -> zipfile.ZipInfo:
        described = zipfile.ZipInfo(name)
        described.compress_type, described.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
        return described


@contextmanager
def new_archive(path: Path, data_dir: Path) -> Iterator[ArchiveWriter]:
    """A new archive, which nobody but its owner may read. Raises `ArchiveExists`, and `OSError`: for a full disk, for
    example, or for one that has the data folder too and would be full."""
    if path.exists():
        raise ArchiveExists(f"{path} already exists")
    draft = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED_SUFFIX}")
    if is_abandoned(draft):  # by a process that had the same id, as each container's first one has
        draft.unlink()
    with _removed(draft):
        with os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b") as file:
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
            shares_disk = os.fstat(file.fileno()).st_dev == data_dir.stat().st_dev
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION_LEVEL) as archive:
                yield ArchiveWriter(archive, lambda: _check_space(file.fileno()) if shares_disk else None)
            file.flush()
            os.fsync(file.fileno())
        _publish(draft, path)
        sync_folder(path.parent)


def is_abandoned(draft: Path) -> bool:
    """Whether nobody writes the file any more. Where locks are not known, nobody can tell."""
    try:
        with draft.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextmanager
def _removed(draft: Path) -> Iterator[None]:
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _check_space(descriptor: int) -> None:
    """Raises `OSError`."""
    disk = os.fstatvfs(descriptor)
    if disk.f_bavail * disk.f_frsize < FREE_BYTES:
        raise OSError(
            errno.ENOSPC, f"the disk, which also holds DATA_DIR, would have less than {FREE_BYTES >> 20} MB free"
        )


def _publish(draft: Path, path: Path) -> None:
    """Gives the file its name, unless another one has it. Raises `ArchiveExists`, `OSError`."""
    try:
        try:
            os.link(draft, path)
        except OSError as error:
            if error.errno not in NO_LINK_ERRORS:
                raise
            path.touch(0o600, exist_ok=False)
            draft.replace(path)
    except FileExistsError:
        raise ArchiveExists(f"{path} already exists") from None


class ArchiveReader:
    """A backup that is read."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        with self.open(NAME) as file:
            self.manifest: Manifest = parse_manifest(file.read(MAX_MANIFEST_BYTES))

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """A file in it. Raises `NotABackup` for one that is missing or damaged."""
        try:
            opened = self._archive.open(name)
        except KeyError:
            raise NotABackup(f"it has no file {name}") from None
        except DAMAGED_ARCHIVE_ERRORS as error:
            raise NotABackup(f"its file {name} is damaged") from error
        try:
            with opened as file:
                yield cast(BinaryIO, file)
        except DAMAGED_CONTENT_ERRORS as error:
            raise NotABackup(f"its file {name} is damaged") from error

    def read(self, name: str) -> bytes:
        """All of a small file."""
        with self.open(name) as file:
            return file.read(MAX_MANIFEST_BYTES)

    def check(self, advance: Callable[[int], None]) -> None:
        """Reads every file and compares it with the manifest. Raises `NotABackup`."""
        for name, stored in self.manifest.files.items():
            checksum, size, rows = hashlib.sha256(), 0, 0
            with self.open(name) as file:
                while block := file.read(BLOCK_BYTES):
                    checksum.update(block)
                    size += len(block)
                    rows += block.count(b"\n")
                    advance(len(block))
            if (size, checksum.hexdigest()) != (stored.bytes, stored.sha256) or stored.rows not in (None, rows):
                raise NotABackup(f"its file {name} has changed: its checksum does not match")


@contextmanager
def open_archive(path: Path) -> Iterator[ArchiveReader]:
    """A backup. Raises `NotABackup`, and `OSError`."""
    path.stat()
    try:
        archive = zipfile.ZipFile(path)
    except DAMAGED_ARCHIVE_ERRORS:
        raise NotABackup("it is not an archive, or it is incomplete") from None
    with archive:
        yield ArchiveReader(archive)
