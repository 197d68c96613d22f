"""A data folder on a network file system is refused at the start (docs/crash-safety.md#what-it-needs)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app import mounts
from app.mounts import kind_of, network_kind
from app.settings import SettingsError, from_environment

MOUNTS = r"""22 28 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw
28 1 252:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,discard
31 28 0:45 / /srv rw,relatime shared:2 master:7 - nfs4 files.example:/srv rw,vers=4.2,addr=192.0.2.7
32 31 252:2 / /srv/local rw,relatime - xfs /dev/vdb1 rw
33 28 0:46 / /mnt/two\040words\134 rw - cifs //files.example/share rw
34 28 0:47 / /mnt/tree rw,relatime - fuse.sshfs someone@files.example:/ rw
35 28 0:48 / /var/lib rw,relatime - nfs files.example:/lib rw
36 35 252:3 / /var/lib rw,relatime - ext4 /dev/vdc1 rw
37 28 0:49 /volumes/a /mnt/cluster rw,relatime - ceph 192.0.2.8:/ rw
38 28 0:50 / /mnt/merged rw,relatime - fuse.mergerfs a:b rw
39 28 0:51 / /mnt/guest rw,relatime - virtiofs share rw
40 28 0:52 / /mnt/host rw,relatime - 9p share rw,trans=virtio
cut short
41 28 0:53
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "ext4"),
        ("/home/tms", "ext4"),
        ("/srv/tms", "nfs4"),
        ("/srvother", "ext4"),
        ("/srv/local", "xfs"),
        ("/srv/local/tms/data", "xfs"),
        ("/srv/locality", "nfs4"),
        ("/mnt/two words\\/data", "cifs"),
        ("/mnt/tree/data", "fuse.sshfs"),
        ("/var/lib/tms", "ext4"),
        ("/mnt/cluster", "ceph"),
    ],
)
def test_a_folder_is_on_the_last_and_deepest_mount_above_it(folder: str, kind: str) -> None:
    assert kind_of(MOUNTS, Path(folder)) == kind


def test_nothing_is_known_of_a_folder_without_a_mount() -> None:
    assert kind_of("", Path("/srv")) is None
    assert kind_of("no mount at all\n - \n", Path("/srv")) is None


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/srv/tms", "nfs4"),
        ("/mnt/tree", "fuse.sshfs"),
        ("/mnt/cluster/tms", "ceph"),
        ("/srv/local", None),
        ("/mnt/merged", None),
        ("/mnt/guest", None),
        ("/mnt/host", None),
    ],
)
def test_file_systems_that_machines_share_are_network_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, kind: str | None
) -> None:
    listed(tmp_path, monkeypatch, MOUNTS)
    assert network_kind(Path(folder)) == kind


def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Has the kernel list these mounts."""
    (tmp_path / "mountinfo").write_text(text)
    monkeypatch.setattr(mounts, "MOUNTS_FILE", tmp_path / "mountinfo")


def test_a_start_with_such_a_folder_is_refused_in_one_line_and_creates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a link leads there."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (tmp_path / "data").symlink_to(shared)
    listed(tmp_path, monkeypatch, f"{MOUNTS}41 28 0:53 / {shared} rw - nfs4 files.example:/srv rw\n")
    for folder in (shared / "data", tmp_path / "data"):
        with pytest.raises(SettingsError) as refusal:
            from_environment({"DATA_DIR": str(folder)})
        assert str(refusal.value) == (
            f"DATA_DIR={folder}: is on a network file system (nfs4), whose locks do not show which processes are "
            "alive; name a folder on a local disk"
        )
    assert os.listdir(shared) == []


def test_without_a_list_of_mounts_a_start_is_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only Linux has one."""
    monkeypatch.setattr(mounts, "MOUNTS_FILE", tmp_path / "none")
    assert from_environment({"DATA_DIR": str(tmp_path / "data")}).data_dir == tmp_path / "data"
