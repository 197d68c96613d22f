"""Acts of the command line that no change of a row shows (docs/audit.md#actions)."""

from __future__ import annotations

from app.addresses import AddressKind, is_valid_email, is_valid_mobile, normalize_address
from app.audit.record import Act, record
from app.cli.base import WrongValue
from app.http.context import services
from app.infrastructure.digests import address_digest, address_digests

# Addresses as operators write them.


def address_kind(text: str, *, besides: str = "") -> AddressKind:
    """The kind of an address. Raises `WrongValue` for any other text; `besides` is what else would be accepted."""
    if "@" in text and is_valid_email(text):
        return "email"
    if "@" not in text and is_valid_mobile(text):
        return "mobile"
    raise WrongValue(f"{text!r} is neither {besides}an email address nor a mobile number such as 61411111111")


def record_act(act: Act) -> None:
    """Records an act in a transaction of its own. One that takes many transactions or hands out data is recorded before
    it begins: so it is in the log, however it ends."""
    with services().database.write() as transaction:
        record(transaction, act)


def digest_of(address: str, kind: AddressKind | None = None) -> str:
    """The keyed hash by which a new entry knows an email address or a mobile number."""
    normalized = normalize_address(kind or address_kind(address), address)
    return address_digest(services().settings.secret_key, normalized)


def digests_of(address: str) -> list[str]:
    """Those by which any entry may know it."""
    return address_digests(services().settings.secret_keys, normalize_address(address_kind(address), address))
