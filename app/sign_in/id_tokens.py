"""Checking the ID tokens of a provider, and reading what they and its other answers say about a person. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""Algorithms with a public key. With others, whoever knows that key could sign, or anybody."""
LEEWAY_SECONDS = 60
"""Seconds by which the clocks of the provider and of this machine may differ."""
LONGEST_SUBJECT = 255
MOST_VALUES = 500
"""Values of a claim that are looked at."""

Claims = Mapping[str, Any]


class UntrustedToken(Exception):
    """An ID token that proves nothing; the text is for the log."""


class UnknownKey(UntrustedToken):
    """An ID token that is signed with a key which the provider has not named, perhaps not yet."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What an ID token has to fit. `nonce` is that of the request which it answers; None for a refreshed one."""

    issuer: str
    client_id: str
    nonce: str | None
    access_token: str


def check_id_token(token: str, keys: KeySet, expected: Expectation) -> Claims:
    """The claims of an ID token that the issuer has signed for this client. Raises `UntrustedToken`."""
    registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
    options = {
        "iss": {"essential": True, "value": expected.issuer},
        "aud": {"essential": True, "value": expected.client_id},
        "sub": {"essential": True},
    }
    parameters = {
        **{"nonce": expected.nonce, "client_id": expected.client_id},
        "access_token": expected.access_token,
    }
    try:
        decoded = jwt.decode(token, keys, registry=registry)
        claims = CodeIDToken(decoded.claims, decoded.header, options, parameters)
        claims.validate(leeway=LEEWAY_SECONDS)
    except InvalidKeyIdError as error:
        raise UnknownKey(str(error)) from None
    except (JoseError, ValueError, TypeError) as error:
        raise UntrustedToken(str(error) or type(error).__name__) from None
    if claims["iss"] != expected.issuer:
        raise UntrustedToken("iss is more than the issuer")
    subject = claims["sub"]
    if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT or not subject.isprintable():
        raise UntrustedToken("sub is no identifier")
    return dict(claims)


def claim_at(claims: Claims, path: str) -> Any:
    """The claim of that name, else what the path leads to; None if there is none."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def values_of(claim: Any) -> Sequence[str]:
    """The texts of a claim, which is one text or several."""
    values = claim if isinstance(claim, list) else [claim]
    return [value for value in values[:MOST_VALUES] if isinstance(value, str)]
