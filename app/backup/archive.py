"""The file of a backup: a zip archive that is written and read in a stream, so that no table need fit into the memory.

It appears under its name only once it is complete and on the disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from app.backup.manifest import NAME, Manifest, NotABackup, StoredFile, parse_manifest

UNFINISHED = ".unfinished"
LEVEL = 1
"""Of compression: higher ones take several times as long and save little."""
BLOCK = 256 * 1024
MOST_MANIFEST = 16 * 1024 * 1024
"""Bytes; that of a backup has some kilobytes."""


class Exists(Exception):
    """There is a file of that name already."""


class ArchiveWriter:
    """Adds files to the archive, each in one pass."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.files: dict[str, StoredFile] = {}

    def add(self, name: str, blocks: Iterable[tuple[bytes, int]], *, rows: bool = False) -> None:
        """Adds a file of blocks, each with the number of its rows."""
        checksum, size, count = hashlib.sha256(), 0, 0
        with self._archive.open(self._described(name), "w", force_zip64=True) as file:
            for block, of_block in blocks:
                file.write(block)
                checksum.update(block)
                size += len(block)
                count += of_block
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
def new_archive(path: Path) -> Iterator[ArchiveWriter]:
    """A new archive, which nobody but its owner may read. Raises `Exists`, and `OSError`: for a full disk, for
    example."""
    if path.exists():
        raise Exists(f"{path} exists already")
    draft = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        with os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
                yield ArchiveWriter(archive)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            raise Exists(f"{path} exists already") from None
        _sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class ArchiveReader:
    """A backup that is read."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        with self.open(NAME) as file:
            self.manifest: Manifest = parse_manifest(file.read(MOST_MANIFEST))

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """A file in it. Raises `NotABackup` for one that is missing or damaged."""
        try:
            with self._archive.open(name) as file:
                yield cast(BinaryIO, file)
        except KeyError:
            raise NotABackup(f"it has no file {name}") from None
        except (zipfile.BadZipFile, zipfile.zlib.error, EOFError) as error:  # type: ignore[attr-defined]
            raise NotABackup(f"its file {name} is damaged") from error

    def read(self, name: str) -> bytes:
        """All of a small file."""
        with self.open(name) as file:
            return file.read(MOST_MANIFEST)

    def check(self, advance: Callable[[int], None]) -> None:
        """Reads every file and compares it with the manifest. Raises `NotABackup`."""
        for name, stored in self.manifest.files.items():
            checksum, size, rows = hashlib.sha256(), 0, 0
            with self.open(name) as file:
                while block := file.read(BLOCK):
                    checksum.update(block)
                    size += len(block)
                    rows += block.count(b"\n")
                    advance(len(block))
            if (size, checksum.hexdigest()) != (stored.bytes, stored.sha256) or stored.rows not in (None, rows):
                raise NotABackup(f"its file {name} is not as it was written: the checksum is another one")


@contextmanager
def open_archive(path: Path) -> Iterator[ArchiveReader]:
    """A backup. Raises `NotABackup`, and `OSError`."""
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile:
        raise NotABackup("it is no archive, or was cut short") from None
    with archive:
        yield ArchiveReader(archive)
