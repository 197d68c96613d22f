"""When backups were made is known to `/metrics` (docs/monitoring/alerts.md#tmsbackupold)."""

from __future__ import annotations

from pathlib import Path

from app.infrastructure.installation_key import record_key
from app.infrastructure.shared_counts import Counts, SharedCounts, add
from tests.restore.conftest import Installation, Installer

NAME = "tms_backup_timestamp_seconds"


def noted(installation: Installation) -> dict[str, float]:
    """When a backup last had each result, as the processes of the host read it."""
    summed: Counts = {}
    for counts in SharedCounts(installation.settings.data_dir / "metrics", dict).others():
        add(summed, counts)
    return {dict(labels)["result"]: moment for (name, labels), moment in summed.items() if name == NAME}


def test_the_last_backup_and_the_last_failure_are_noted(installed: Installer, tmp_path: Path) -> None:
    """In two files at most, however many there were; who makes none has none."""
    source = installed("sqlite", migrated=True)
    assert noted(source) == {}
    assert source.json("status")["backup_age_seconds"] is None
    for number in range(3):
        source.json("backup", str(tmp_path / f"{number}.zip"))
    first = noted(source)
    assert first.keys() == {"done"}
    assert source.json("status")["backup_age_seconds"] is not None
    source.refused("backup", str(tmp_path / "0.zip"))
    after = noted(source)
    assert after["failed"] >= after["done"] == first["done"]
    kept = [path.suffix for path in (source.settings.data_dir / "metrics").iterdir()]
    assert sorted(kept) == [".alive", ".counts", ".json", ".lock"]


def test_a_backup_that_is_refused_for_its_key_is_noted_as_failed(installed: Installer, tmp_path: Path) -> None:
    source = installed("sqlite", migrated=True)
    record_key(source.services.database, "a key of another host with 32 characters or more")
    assert "is not the installation's key" in source.refused("backup", str(tmp_path / "backup.zip"))
    assert noted(source).keys() == {"failed"}
