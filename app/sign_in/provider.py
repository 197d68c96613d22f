"""Talking to the provider of OpenID Connect: its description, its keys, and the tokens that it gives (docs/sign-in.md).

Only workers do. Each request has a deadline and a bounded answer, follows no redirect and uses no proxy of the
environment, as `app.events.guarded_connection` sends it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import orjson
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.discovery import get_well_known_url
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from app.events.guarded_connection import Answer, FetchFailed, exchange, trusted_roots
from app.settings import Settings
from app.sign_in.attempts import AttemptSecrets, callback_url
from app.sign_in.id_tokens import Claims, Expectation, UnknownKey, UntrustedToken, check_id_token, claim_at

DESCRIPTION_SECONDS = 3600.0
"""Seconds for which the description of the provider and its keys are kept."""
SECONDS_BETWEEN_KEYS = 60.0
"""Seconds before the keys are read again for a token with an unknown one: anybody can make up a key's name."""
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
TEMPORARY_ERRORS = frozenset({"server_error", "slow_down", "temporarily_unavailable"})
"""Errors of a provider that say nothing about a person."""
TOO_MANY_REQUESTS = 429


Tokens = Mapping[str, Any]
"""What the token endpoint has given, unchecked."""


class ProviderUnavailable(Exception):
    """The provider does not answer, or not with what the standard says; the text is for the log."""


class ProviderRefusal(Exception):
    """The provider refuses the code or the refresh token, or proves nothing; the text is for the log."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who has signed in, and what the provider says about the person."""

    subject: str
    claims: Claims
    refresh_token: str | None


@dataclass(frozen=True, slots=True)
class Description:
    """What a provider says of itself."""

    endpoints: Mapping[str, str]
    auth_method: str
    names_itself: bool
    """Whether its answers have the parameter `iss` (RFC 9207)."""
    keys: KeySet
    read_time: float


class Provider:
    """The provider of the settings, as one process knows it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._description: Description | None = None

    def describe(self) -> Description:
        """The description, read from the provider once an hour. Raises `ProviderUnavailable`."""
        with self._lock:
            description = self._description
            if description is None or time.monotonic() > description.read_time + DESCRIPTION_SECONDS:
                description = self._description = self._read_description()
            return description

    def authorization_url(self, secrets: AttemptSecrets) -> str:
        """Where the browser of an attempt goes. Raises `ProviderUnavailable`."""
        url: str = prepare_grant_uri(
            self.describe().endpoints["authorization_endpoint"],
            self._settings.oidc_client_id,
            "code",
            callback_url(self._settings),
            self._settings.oidc_scopes,
            secrets.state,
            nonce=secrets.nonce,
            code_challenge=create_s256_code_challenge(secrets.verifier),
            code_challenge_method="S256",
        )
        return url

    def redeem(self, code: str, secrets: AttemptSecrets) -> Person:
        """Who has signed in, by the code that the browser has brought. Raises `ProviderUnavailable` or
        `ProviderRefusal`."""
        given = self._ask_for_tokens(
            "authorization_code", code=code, redirect_uri=callback_url(self._settings), code_verifier=secrets.verifier
        )
        if not given.get("id_token"):
            raise ProviderRefusal("no ID token")
        claims = self._checked(given, secrets.nonce)
        return self._person(claims["sub"], claims, given)

    def refresh(self, refresh_token: str) -> Tokens:
        """New tokens for a person who has signed in before. The refresh token may not work again. Raises
        `ProviderUnavailable`, or `ProviderRefusal` if the person may not be signed in any more."""
        return self._ask_for_tokens("refresh_token", refresh_token=refresh_token)

    def ask_about(self, subject: str, given: Tokens) -> Person:
        """What the provider says now about the person for whom it has given new tokens. Raises like `refresh`."""
        claims = self._checked(given, None) if given.get("id_token") else {"sub": subject}
        if claims["sub"] != subject:
            raise ProviderRefusal("the tokens are those of another person")
        return self._person(subject, claims, given)

    def _person(self, subject: str, claims: Claims, given: Tokens) -> Person:
        """The person of the claims; those that the ID token lacks are asked for."""
        url = self.describe().endpoints.get("userinfo_endpoint")
        if url is not None and claim_at(claims, self._settings.oidc_role_claim) is None:
            headers = {"Authorization": f"Bearer {_text(given, 'access_token')}", "Accept": "application/json"}
            more = _object_of(self._exchange(url, headers=headers))
            if more.get("sub") != subject:
                raise ProviderRefusal("the userinfo is that of another person")
            claims = {**more, **claims}
        return Person(subject, claims, refresh_token_of(given))

    def _checked(self, given: Tokens, nonce: str | None) -> Claims:
        """The claims of the ID token. If its key is unknown, the keys are read once more."""
        settings, token = self._settings, _text(given, "id_token")
        expected = Expectation(
            settings.oidc_issuer, settings.oidc_client_id, nonce, access_token=_text(given, "access_token")
        )
        description = self.describe()
        try:
            try:
                return check_id_token(token, description.keys, expected)
            except UnknownKey:
                if not self._forget_keys(description):
                    raise
                return check_id_token(token, self.describe().keys, expected)
        except UntrustedToken as error:
            raise ProviderRefusal(f"the ID token: {error}") from None

    def _forget_keys(self, description: Description) -> bool:
        """Whether the provider is described anew next time, since its keys are not those of a moment ago."""
        with self._lock:
            if self._description is description and time.monotonic() < description.read_time + SECONDS_BETWEEN_KEYS:
                return False
            self._description = None
            return True

    def _read_description(self) -> Description:
        issuer = self._settings.oidc_issuer
        document = _object_of(self._exchange(get_well_known_url(issuer, external=True)))
        if document.get("issuer") != issuer:
            raise ProviderUnavailable(f"its description is that of the issuer {str(document.get('issuer'))[:200]!r}")
        endpoints = {name: url for name in ENDPOINTS if isinstance(url := document.get(name), str)}
        missing = [name for name in ENDPOINTS[:3] if name not in endpoints]
        unsafe = [name for name, url in endpoints.items() if not self._is_safe(url)]
        if missing or unsafe:
            raise ProviderUnavailable(f"its description lacks, or has without https: {', '.join(missing + unsafe)}")
        methods = document.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        prefers_post = "client_secret_basic" not in methods and "client_secret_post" in methods
        with_secret = "client_secret_post" if prefers_post else "client_secret_basic"
        return Description(
            endpoints,
            with_secret if self._settings.oidc_client_secret else "none",
            document.get("authorization_response_iss_parameter_supported") is True,
            self._read_keys(endpoints["jwks_uri"]),
            time.monotonic(),
        )

    def _is_safe(self, url: str) -> bool:
        """A provider on a loopback host may do without TLS."""
        return urlsplit(url).scheme in ("https", urlsplit(self._settings.oidc_issuer).scheme)

    def _read_keys(self, url: str) -> KeySet:
        try:
            return KeySet.import_key_set(_object_of(self._exchange(url)))  # type: ignore[arg-type]
        except (JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise ProviderUnavailable(f"{url} has no keys: {error}") from None

    def _ask_for_tokens(self, grant_type: str, **parameters: str) -> Tokens:
        """The answer of the token endpoint. Raises `ProviderUnavailable` or `ProviderRefusal`."""
        description, settings = self.describe(), self._settings
        client_id, secret = settings.oidc_client_id, settings.oidc_client_secret
        if description.auth_method == "client_secret_basic":
            client_id, secret = quote(client_id, safe=""), quote(secret, safe="")  # RFC 6749, 2.3.1
        url, headers, body = ClientAuth(client_id, secret, description.auth_method).prepare(
            "POST",
            description.endpoints["token_endpoint"],
            {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"},
            prepare_token_request(grant_type, **parameters),
        )
        answer = self._exchange(url, method="POST", headers=headers, body=body)
        if 400 <= answer.status < 500 and answer.status != TOO_MANY_REQUESTS:
            error = str(_object_of(answer, any_status=True).get("error"))[:100]
            if error not in TEMPORARY_ERRORS:
                raise ProviderRefusal(f"the token endpoint: {error!r}")
        given = _object_of(answer)
        if not _text(given, "access_token"):
            raise ProviderUnavailable("no access token")
        return given

    def _exchange(self, url: str, **options: Any) -> Answer:
        try:
            return exchange(url, trusted_roots(), allow_private=True, **options)
        except FetchFailed as error:
            raise ProviderUnavailable(str(error)) from error


def refresh_token_of(given: Tokens) -> str | None:
    """The refresh token among the tokens, if there is one."""
    return _text(given, "refresh_token") or None


def _text(given: Tokens, name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""


def _object_of(answer: Answer, *, any_status: bool = False) -> dict[str, Any]:
    """The JSON object of an answer. Raises `ProviderUnavailable`."""
    if answer.status != 200 and not any_status:
        raise ProviderUnavailable(f"status {answer.status}")
    try:
        document = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise ProviderUnavailable("an answer is no JSON object")
    return document
