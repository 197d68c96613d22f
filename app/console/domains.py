"""Sending domains with their records (docs/console-contents.md#domains-and-senders)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.dns_records import Record
from app.db.models import Domain
from app.maintenance.sending_domains import domain_rows
from app.settings import Settings

PATH = "/console/domains"
MAX_DOMAINS = 200
"""Domains that a page shows, by name."""
PURPOSES = {
    "spf": "SPF: the servers that send mail for the domain",
    "dkim": "DKIM: the key that signs its mail",
    "dmarc": "DMARC: what receivers do with mail that fails the checks",
    "dmarc_reports": "DMARC reports: who may receive them",
    "tls_reports": "TLS reports: who receives them",
    "tracking": "Tracking host: where links lead",
    "return_path": "Return path: where bounces go",
}
"""Purpose of a record -> what it is for."""
RECORD_KEYS = ("purpose", "name", "type", "value", "state", "found")
"""Keys of a record in the row of a domain, in the order of the attributes of `ShownRecord`."""
UNIQUE_PURPOSES = ("spf", "dkim", "return_path")
"""Purposes of records of which a name may have one alone."""


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record to publish, and what the last lookup has found in its place: its state, None without a lookup."""

    purpose: str
    name: str
    type: str
    value: str
    state: str | None
    published: Sequence[str]

    @property
    def means(self) -> str:
        """What the record is for; a DKIM record with the algorithm of its key."""
        if self.purpose != "dkim":
            return PURPOSES[self.purpose]
        return PURPOSES["dkim"].replace("DKIM", f"DKIM ({'Ed25519' if 'k=ed25519' in self.value else 'RSA'})", 1)

    @property
    def need(self) -> str:
        """Whether mail can be sent without the record."""
        if self.purpose == "dkim":
            return "one DKIM record is required, all are recommended"
        return "required" if self.purpose == "spf" else "recommended"

    @property
    def lacks(self) -> str:
        """What is missing, in words; empty for one that is right or was not looked up."""
        match self.state:
            case "missing":
                return "No such record is published under this name."
            case "unknown":
                return "The name servers did not answer."
            case "wrong":
                return self._wrong()
            case "taken":
                return "This host belongs to another account."
            case "unproven":
                return "The host is not below a verified domain of the account, and no operator has approved it."
        return ""

    def _wrong(self) -> str:
        if self.type != "TXT":
            return "The record has another value."
        if len(self.published) > 1 and self.purpose in UNIQUE_PURPOSES:
            return "There are several records, so receivers ignore all of them. Merge them into one."
        if self.purpose == "dkim":
            return "Another key is published."
        if self.purpose in ("spf", "return_path"):
            return f"The record lacks {self.value.split()[1]}. Add it to the published record."
        return "There are several records, so receivers ignore all of them. Keep only one."


@dataclass(frozen=True, slots=True)
class ShownDomain:
    """A sending domain as a page shows it."""

    account_id: int
    row: Mapping[str, Any]

    @property
    def path(self) -> str:
        """The path of the domain's page."""
        return f"{PATH}/{self.row['id']}"

    @property
    def state(self) -> str:
        """The state of the domain, in one word."""
        if self.row["trusted"]:
            return "trusted"
        return "verified" if self.row["verified"] else "unverified"

    @property
    def records(self) -> Sequence[ShownRecord]:
        """The records to publish."""
        return [ShownRecord(*(record[name] for name in RECORD_KEYS)) for record in self.row["records"]]

    @property
    def lacking(self) -> Sequence[str]:
        """The purposes of records that the last lookup has not found right, each once."""
        return list(dict.fromkeys(record.purpose for record in self.records if record.state not in (None, "right")))

    @property
    def zone(self) -> str:
        """The records as lines of a zone file."""
        return "\n".join(
            Record(record.purpose, record.name, record.type, record.value).zone_line() for record in self.records
        )


def shown_domains(session: Session, settings: Settings, account_id: int) -> Sequence[ShownDomain]:
    """The account's domains, by name: two statements."""
    statement = select(Domain).where(Domain.account_id == account_id).order_by(Domain.name).limit(MAX_DOMAINS)
    domains = session.scalars(statement).all()
    return [ShownDomain(account_id, row) for row in domain_rows(session, settings, domains)]


def shown_domain(session: Session, settings: Settings, domain: Domain) -> ShownDomain:
    """One domain as its page shows it: one statement."""
    (row,) = domain_rows(session, settings, [domain])
    return ShownDomain(domain.account_id, row)
