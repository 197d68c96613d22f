"""What journals know of messages that are held after a restore: results that were not in the database yet."""

from __future__ import annotations

from collections.abc import Iterable

from app.backup.archive import ArchiveReader
from app.backup.manifest import JOURNALS
from app.sends.outcomes.attempt_result import JOURNAL_SUFFIX, AttemptResult, journal_folder, parse_line
from app.settings import Settings


def results_of_archive(archive: ArchiveReader) -> list[AttemptResult]:
    """The attempt results in the journals of a backup. Raises `NotABackup`."""
    names = [name for name in archive.manifest.files if name.startswith(JOURNALS)]
    return _results(line for name in names for line in archive.read(name).splitlines())


def results_of_machine(settings: Settings) -> list[AttemptResult]:
    """The results in the journals that senders have left on this machine. After the database is lost, nothing else says
    what they had handed over since the backup. Raises `OSError`."""
    paths = sorted(journal_folder(settings).glob(f"*{JOURNAL_SUFFIX}"))
    return _results(line for path in paths for line in path.read_bytes().splitlines())


def _results(lines: Iterable[bytes]) -> list[AttemptResult]:
    results = []
    for line in lines:
        try:
            results.append(parse_line(line))
        except ValueError:  # cut short by a kill or a full disk: that message was in flight
            continue
    return results
