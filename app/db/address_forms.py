"""The forms of an address under which suppressions may be stored (docs/upgrade.md#from-before-the-first-release)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from sqlalchemy import TextClause, select, text
from sqlalchemy.orm import Session

from app.addresses import AccountAddress, NormalizedAddress, address_forms
from app.db.expressions import is_postgresql
from app.db.models import DigestKey
from app.db.models.contacts import non_ascii

Address = TypeVar("Address", NormalizedAddress, AccountAddress)


def is_non_ascii(session: Session, column: str) -> TextClause:
    """The condition that a text has other characters than those of ASCII, written as in the index of such rows."""
    postgresql, sqlite = non_ascii(column)
    return text(postgresql if is_postgresql(session) else sqlite)


# Suppressions whose address was forgotten are kept under a digest of it (docs/privacy.md#what-is-kept).

PREFIX = "forgotten:"
"""The start of a digest where otherwise an address stands. No address begins like this: it has neither an @ nor digits
alone."""

Digest = Callable[[NormalizedAddress], str]


class AddressDigests:
    """The digests of an installation. `open_key` makes the function of the key as it is stored; None for one that
    cannot be decrypted."""

    def __init__(self, open_key: Callable[[str], Digest | None]) -> None:
        self._open_key = open_key
        self._digest: Digest | None = None

    def of(self, session: Session, addresses: Collection[Address]) -> dict[str, Address]:
        """Digest, as it is stored in place of an address -> the address: first those of the normalized form, then those
        that releases before made of other forms, which nobody can make anew. Empty while no address was ever
        forgotten."""
        digest = self._digest or self._read(session)
        if digest is None:
            return {}
        forms = [
            (place, form, address) for address in addresses for place, form in enumerate(address_forms(address.key))
        ]
        forms.sort(key=lambda form: form[0])
        return {f"{PREFIX}{digest(NormalizedAddress(address.kind, form))}": address for _, form, address in forms}

    def _read(self, session: Session) -> Digest | None:
        """The key is read once: it never changes."""
        stored = session.scalar(select(DigestKey.key).where(DigestKey.id == 1))
        self._digest = None if stored is None else self._open_key(stored)
        return self._digest


def find_digests(session: Session, addresses: Collection[Address]) -> dict[str, Address]:
    """Digest, as it is stored in place of an address -> the address, with the key of the session's database. Those of
    the normalized forms come first."""
    digests: AddressDigests | None = getattr(session, "digests", None)
    return digests.of(session, addresses) if digests and addresses else {}
