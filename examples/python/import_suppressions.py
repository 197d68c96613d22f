"""Imports the suppression list of another provider: addresses that bounced, complained or unsubscribed there get no
messages here either. Its files are read as the provider exports them:

pip install ./clients/python
TMS_URL=http://127.0.0.1:8000 TMS_KEY=tms_... python examples/python/import_suppressions.py bounces.csv unsubscribes.csv

What is there already is not added again, so the program can be repeated after an interruption.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transactional_messaging import Client, ValidationFailed

REQUEST_SIZE = 1000  # suppressions in one request
ADDRESS_COLUMNS = ("email", "address", "recipient", "emailaddress")  # as different providers call them
REASON_COLUMNS = ("reason", "type", "suppressionreason")
WORDS = {"unsub": "unsubscribed", "manual": "unsubscribed", "spam": "complaint", "complain": "complaint"}
SMTP_CODE = re.compile(r"(smtp; *)?[45](\d\d\b|\.\d)")  # the reply of a mail server, in which such words say nothing


def suppression_of(row: dict[str | None, Any], file_name: str) -> dict[str, str]:
    """What a row says, which may be shorter or longer than the header. Without a reason, the name of the file says
    it."""
    cells = {name.strip().lower().replace(" ", ""): (cell or "").strip() for name, cell in row.items() if name}
    address = next((cells[name] for name in ADDRESS_COLUMNS if cells.get(name)), "")
    reason = next((cells[name] for name in REASON_COLUMNS if cells.get(name)), file_name).lower()
    words = {} if SMTP_CODE.match(reason) else WORDS
    meaning = next((meaning for word, meaning in words.items() if word in reason), "permanent bounce")
    if meaning == "unsubscribed":
        return {"state": "unsubscribed", "email": address}
    return {"state": "blocked", "email": address, "reason": meaning}


def add(client: Client, suppressions: list[dict[str, str]]) -> Iterator[str]:
    """Adds up to a thousand, without those that the service refuses; yields why it does."""
    while suppressions:
        try:
            client.suppressions.add_many(suppressions)
        except ValidationFailed as refused:
            faulty = {error.index for error in refused.errors}
            for error in refused.errors:
                yield f"{suppressions[error.index or 0]['email']}: {error.developer_message}"
            suppressions = [entry for index, entry in enumerate(suppressions) if index not in faulty]
        else:
            return


client = Client()  # with TMS_KEY and TMS_URL
for path in map(Path, sys.argv[1:]):
    with path.open(encoding="utf-8-sig", newline="") as file:
        suppressions = [suppression_of(row, path.name) for row in csv.DictReader(file)]
    refusals = 0
    for start in range(0, len(suppressions), REQUEST_SIZE):
        for reason in add(client, suppressions[start : start + REQUEST_SIZE]):
            refusals += 1
            print(f"{path.name}: left out {reason}", file=sys.stderr)
    print(f"{path.name}: {len(suppressions) - refusals} suppressions")
