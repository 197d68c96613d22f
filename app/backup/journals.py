"""What journals know of messages that are held after a restore: results that were not in the database yet."""

from __future__ import annotations

from app.backup.archive import ArchiveReader
from app.backup.manifest import JOURNALS
from app.sends.outcomes.attempt_result import AttemptResult, parse_lines, read_journals
from app.settings import Settings


def results_of_archive(archive: ArchiveReader) -> list[AttemptResult]:
    """The attempt results in the journals of a backup. Raises `NotABackup`."""
    names = [name for name in archive.manifest.files if name.startswith(JOURNALS)]
    return [result for name in names for result in parse_lines(archive.read(name))]


def results_of_machine(settings: Settings) -> list[AttemptResult]:
    """The results in the journals that senders have left on this machine. After the database is lost, nothing else says
    what they had handed over since the backup. Raises `OSError`."""
    return [result for _, lines in read_journals(settings) for result in parse_lines(lines)]
