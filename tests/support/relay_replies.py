"""What mail servers answer, and what it means (relay_replies.tsv)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

BLOCKS, PERMANENT, TEMPORARY = MEANINGS = ("blocks", "permanent", "temporary")


class RelayReply(NamedTuple):
    """A reply of a provider or a mail server, on one line, and its meaning."""

    provider: str
    meaning: str
    text: str

    @property
    def code(self) -> int:
        """The SMTP code of the reply."""
        return int(self.text[:3])

    @property
    def has_code(self) -> bool:
        """Whether it begins with one, as the answers to commands do."""
        return re.match(r"[45]\d\d[ -]", self.text) is not None


def relay_replies() -> Sequence[RelayReply]:
    """The whole table."""
    lines = Path(__file__).with_suffix(".tsv").read_text().splitlines()
    return [RelayReply(*line.split("\t")) for line in lines if not line.startswith("#")]
