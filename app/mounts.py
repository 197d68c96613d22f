"""The file system that a folder is on, as Linux lists its mounts (proc_pid_mountinfo(5))."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

MOUNTS_FILE = Path("/proc/self/mountinfo")
"""Elsewhere than on Linux there is none, and nothing is known of a folder."""

NETWORK_KINDS = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "davfs"),
    *("ceph", "lustre", "glusterfs", "beegfs", "gpfs", "orangefs", "pvfs2", "gfs2", "ocfs2"),
    *("sshfs", "ceph-fuse", "davfs2", "curlftpfs", "smbnetfs", "rclone", "s3fs", "goofys", "gcsfuse", "blobfuse"),
    *("blobfuse2", "mountpoint-s3", "juicefs", "JuiceFS", "mfs", "lizardfs", "seaweedfs", "cvmfs2", "afp"),
}
"""Types of file systems that several machines share, also behind `fuse.`. Not 9p and virtiofs: they share a folder of a
machine with its guest, which tests the locks itself."""

_OCTAL = re.compile(r"\\([0-7]{3})")


def network_kind(folder: Path) -> str | None:
    """The type of the network file system that a folder is on, or will be on; None for a local or unknown one."""
    mounts = ""
    with contextlib.suppress(OSError):
        mounts = MOUNTS_FILE.read_text("utf-8", "surrogateescape")
    kind = kind_of(mounts, folder.resolve()) or ""
    return kind if kind.removeprefix("fuse.") in NETWORK_KINDS else None


def kind_of(mounts: str, folder: Path) -> str | None:
    """The type of the file system that an absolute path is on; None if no mount has it."""
    above = [(len(point.parts), kind) for point, kind in _mounts(mounts) if folder.is_relative_to(point)]
    longest = max((length for length, _ in above), default=0)
    return next((kind for length, kind in reversed(above) if length == longest), None)  # the last one hides the others


def _mounts(mounts: str) -> Iterator[tuple[Path, str]]:
    """Each mount point with its type. Optional fields stand between the two, up to a hyphen."""
    for line in mounts.splitlines():
        place, separator, device = line.partition(" - ")
        if separator and len(fields := place.split(" ")) > POINT and device:
            yield Path(_OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[POINT])), device.split(" ")[0]


POINT = 4
"""The field with the mount point, in which blanks and backslashes are octal numbers."""
