"""DKIM signatures, by which receivers recognise forged mail (RFC 6376, and RFC 8463 for Ed25519). Pure.

A mail carries one signature for each key of its sender's domain: RSA, which every receiver can verify, and Ed25519.
Both cover the whole body (there is no `l=`) and oversign the important header fields: each is listed once more often
than it occurs, so that adding another one breaks the signature.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from dkim.canonicalization import Relaxed, compress_whitespace, correct_empty_body, strip_trailing_lines

ALGORITHMS = ("rsa", "ed25519")
RSA_BITS = 2048
MIN_RSA_BITS, MAX_RSA_BITS = 1024, 4096
"""Bits of an imported RSA key (RFC 8301, 3.2)."""
MAX_PEM_LENGTH = 20_000
"""Characters of an imported private key."""

OVERSIGNED_FIELDS = (
    *("From", "To", "Cc", "Subject", "Date", "Message-ID", "Reply-To"),
    *("MIME-Version", "Content-Type", "Content-Transfer-Encoding"),
)
"""Oversigned: signed, and listed once more, so that no other one can be added."""
SIGNED_IF_PRESENT = (
    *("Auto-Submitted", "List-Unsubscribe", "List-Unsubscribe-Post"),
    *("In-Reply-To", "References", "Importance"),
)
"""Signed if they occur (required by RFC 8058, 4). A further field of a mail belongs here, unless programs on the way
may change it."""

_SIGNED_FIELDS = [
    (name, name.lower().encode(), name in OVERSIGNED_FIELDS) for name in (*OVERSIGNED_FIELDS, *SIGNED_IF_PRESENT)
]
_FIELD = re.compile(rb"\r\n(?![ \t])")
_UNUSUAL = re.compile(rb"[\t\r\n\v\f]|  ")
_LINE = 64

PrivateKey = RSAPrivateKey | Ed25519PrivateKey


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key as it is stored: the private key as PEM, the public key as in the DNS record."""

    selector: str
    algorithm: str
    private_key: str = field(repr=False)
    public_key: str


@dataclass(frozen=True, slots=True)
class Signer:
    """A key in use; its public key is published at `<selector>._domainkey.<domain>`."""

    domain: str
    selector: str
    key: PrivateKey = field(repr=False)

    @property
    def algorithm(self) -> str:
        """The `a=` tag of its signatures."""
        return "rsa-sha256" if isinstance(self.key, RSAPrivateKey) else "ed25519-sha256"

    def signature(self, data: bytes) -> bytes:
        """The signature of the header fields; Ed25519 signs their hash (RFC 8463, 3)."""
        if isinstance(self.key, RSAPrivateKey):
            return self.key.sign(data, PKCS1v15(), SHA256())
        return self.key.sign(hashlib.sha256(data).digest())


def new_key(algorithm: str, selector: str | None = None) -> NewKey:
    """A new key of one of `ALGORITHMS`, by default with a selector that no other installation uses for the same
    domain."""
    return _storable(
        selector or f"tms-{secrets.token_hex(4)}-{algorithm}",
        generate_private_key(65537, RSA_BITS) if algorithm == "rsa" else Ed25519PrivateKey.generate(),
    )


def imported_key(selector: str, pem: str) -> NewKey:
    """An existing private key. Raises `ValueError`, whose text says what a usable key is."""
    try:
        key = load_pem_private_key(pem.encode(), password=None) if len(pem) <= MAX_PEM_LENGTH else None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, PrivateKey):
        raise ValueError("must be an RSA or Ed25519 private key in PEM format, without a password")
    if isinstance(key, RSAPrivateKey) and not MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS:
        raise ValueError(f"is an RSA key of {key.key_size} bits; receivers accept {MIN_RSA_BITS} to {MAX_RSA_BITS}")
    return _storable(selector, key)


def _storable(selector: str, key: PrivateKey) -> NewKey:
    if isinstance(key, RSAPrivateKey):
        algorithm, form, encoding = "rsa", PublicFormat.SubjectPublicKeyInfo, Encoding.DER
    else:
        algorithm, form, encoding = "ed25519", PublicFormat.Raw, Encoding.Raw
    public = key.public_key().public_bytes(encoding, form)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return NewKey(selector, algorithm, private.decode(), base64.b64encode(public).decode())


def record_name(domain: str, selector: str) -> str:
    """The name of the TXT record with the public key."""
    return f"{selector}._domainkey.{domain}"


def record_value(algorithm: str, public_key: str) -> str:
    """The content of that record."""
    return f"v=DKIM1; k={algorithm}; p={public_key}"


def open_signer(domain: str, selector: str, private_key: str) -> Signer:
    """Loads a stored key; raises `ValueError` for a text that is not an RSA or Ed25519 key."""
    key = load_pem_private_key(private_key.encode(), password=None)
    if not isinstance(key, PrivateKey):
        raise ValueError(f"the key {selector} of {domain} is neither RSA nor Ed25519")
    return Signer(domain, selector, key)


def sign(content: bytes, signers: Sequence[Signer], moment: datetime) -> bytes:
    """The message, whose lines end in CRLF, with a DKIM-Signature field at the top for each of the signers."""
    if not signers:
        return content
    head, _, body = content.partition(b"\r\n\r\n")
    names, signed = _signed_fields(head)
    body_hash = base64.b64encode(hashlib.sha256(relaxed_body(body)).digest()).decode()
    return b"".join([*(_field(signer, names, signed, body_hash, moment) for signer in signers), content])


def relaxed_body(body: bytes) -> bytes:
    """The body in relaxed canonical form (RFC 6376, 3.4.4). Most bodies have it already, and checking that is a
    twentieth of the work: no run of blanks, none at the end of a line, and one line end at the end."""
    ends_once = body.endswith(b"\r\n") and not body.endswith(b"\r\n\r\n") and body != b"\r\n"
    if ends_once and not (b"  " in body or b"\t" in body or b" \r\n" in body):
        return body
    # Runs of blanks are reduced first: the library strips them before line ends in time quadratic in their length.
    shortened: bytes = compress_whitespace(body).replace(b" \r\n", b"\r\n")
    canonical: bytes = correct_empty_body(strip_trailing_lines(shortened))
    return canonical


def _signed_fields(head: bytes) -> tuple[list[str], bytes]:
    """The names for `h=`, and the fields they refer to in canonical form.

    Of several fields with one name the last comes first; a name without a field left refers to an empty one (RFC 6376,
    5.4.2).
    """
    by_name: dict[bytes, list[bytes]] = {}
    for line in reversed(_FIELD.split(head)):
        name, _, value = line.partition(b":")
        by_name.setdefault(name.lower(), []).append(relaxed_field(name, value))
    names, chosen = [], []
    for signed_name, key, guard in _SIGNED_FIELDS:
        fields_of_name = by_name.get(key, [])
        names += [signed_name] * (len(fields_of_name) + guard)
        chosen += fields_of_name
    return names, b"".join(chosen)


@lru_cache(maxsize=256)
def relaxed_field(name: bytes, value: bytes) -> bytes:
    """A field in canonical form (RFC 6376, 3.4.2). Most values on one line only lose the blank before them. Cached,
    because most fields are the same for all recipients of a send."""
    text = value[1:]
    if value.startswith(b" ") and not (text.startswith(b" ") or text.endswith(b" ") or _UNUSUAL.search(text)):
        return b"%b:%b\r\n" % (name.lower(), text)
    ((name, canonical),) = Relaxed.canonicalize_headers([(name, value)])
    return b"%b:%b" % (name, canonical)


def _field(signer: Signer, names: Sequence[str], signed: bytes, body_hash: str, moment: datetime) -> bytes:
    """The whole DKIM-Signature field. The signed text ends in an empty `b=`, without a line end (RFC 6376, 3.7); the
    canonical form of our own value differs only in its line breaks."""
    value = (
        f" v=1; a={signer.algorithm}; c=relaxed/relaxed;\r\n d={signer.domain};\r\n s={signer.selector};"
        f" t={int(moment.timestamp())};\r\n h={_folded(tuple(names))};\r\n bh={body_hash};\r\n b="
    ).encode()
    signature = signer.signature(signed + b"dkim-signature:" + value.replace(b"\r\n", b"").lstrip())
    text = base64.b64encode(signature).decode()
    pieces = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
    return b"DKIM-Signature:" + value + "\r\n ".join(pieces).encode() + b"\r\n"


@lru_cache(maxsize=64)
def _folded(names: tuple[str, ...]) -> str:
    """The names joined by colons, in folded lines."""
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > _LINE:
            lines.append("")
        lines[-1] += f"{name}:"
    return "\r\n ".join(lines)[:-1]
