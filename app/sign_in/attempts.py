"""Attempts to sign in by OpenID Connect, as requests see them (docs/sign-in.md#the-way).

An attempt belongs to the browser that has begun it: its cookie has a random token, of which the database has the hash.
State, nonce and the verifier of PKCE are derived from the token, each by a hash of its own, so that none tells another.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import orjson
from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from app.accounts.auth import hash_token
from app.accounts.sessions import Continuation, Grant, encrypted_refresh_token, start_for_person
from app.clock import now, seconds_from_now, this_second
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Account, ConsolePerson, ConsoleSignIn
from app.errors import ServiceError
from app.infrastructure.redis_client import AUTOMATIONS
from app.secret_keys import decrypt, encrypt
from app.services import Services
from app.settings import Settings

ATTEMPT_LIFETIME = timedelta(minutes=10)
CHECK_SECONDS = 300.0
"""Seconds between two questions to the provider whether a person still has a role."""
LIFETIME_WITHOUT_CHECKS = timedelta(hours=1)
"""How long a person stays signed in whom the provider gave no refresh token."""
CALLBACK_PATH = "/console/sign-in/callback"
LONGEST_CODE = 4000
BEGUN, READY, ANSWERED, ACCEPTED, REFUSED = "begun", "ready", "answered", "accepted", "refused"
ERROR_CODE = re.compile(r"[a-z_]{1,60}")


class AttemptSecrets(NamedTuple):
    """What only the browser, the service and the provider know of an attempt."""

    token: str

    @property
    def state(self) -> str:
        """What the provider has to send back."""
        return self._derived("state")

    @property
    def nonce(self) -> str:
        """What the ID token has to contain."""
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """What proves to the provider that the code comes from who has asked for it."""
        return self._derived("verifier")

    def _derived(self, purpose: str) -> str:
        return hashlib.sha256(f"{purpose} {self.token}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that has not ended. `secret` has what its state needs."""

    id: int
    state: str
    secret: Mapping[str, Any]
    wanted_path: str
    reason: str | None
    person_id: int | None


def callback_url(settings: Settings) -> str:
    """Where the provider sends the browser back."""
    return f"{settings.public_url}{CALLBACK_PATH}"


def sealed(settings: Settings, secret: Mapping[str, Any]) -> str:
    """What an attempt's next step needs, as it is stored."""
    return encrypt(settings.secret_key, orjson.dumps(secret).decode())


def opened(settings: Settings, stored: str) -> Mapping[str, Any]:
    """What was `sealed`. Raises `SecretUnreadable`."""
    secret: Mapping[str, Any] = orjson.loads(decrypt(settings.secret_keys, stored))
    return secret


def begin(transaction: Transaction, services: Services, wanted_path: str) -> str:
    """Begins an attempt, for which a worker prepares the way to the provider; returns its token."""
    token = secrets.token_urlsafe(32)
    row = ConsoleSignIn(
        token_hash=hash_token(token),
        state=BEGUN,
        secret=sealed(services.settings, {"token": token}),
        wanted_path=wanted_path,
        due_time=now(),
        end_time=now() + ATTEMPT_LIFETIME,
    )
    transaction.add(row)
    transaction.after_commit(lambda: services.wake_ups.wake(AUTOMATIONS))
    return token


def find_attempt(session: Session, settings: Settings, token: str) -> Attempt | None:
    """The attempt with that token; None for one that has ended."""
    is_valid = ConsoleSignIn.token_hash == hash_token(token), ConsoleSignIn.end_time > now()
    row = session.scalars(select(ConsoleSignIn).where(*is_valid)).first()
    if row is None:
        return None
    return Attempt(row.id, row.state, opened(settings, row.secret), row.wanted_path, row.reason, row.person_id)


def take_answer(transaction: Transaction, services: Services, token: str, answer: Mapping[str, str]) -> None:
    """Takes what the provider has sent with the browser: a code, which a worker redeems, or an error. Raises
    `permission_denied` for an answer that is not one to this attempt, or the second one."""
    attempt, settings = find_attempt(transaction, services.settings, token), services.settings
    if attempt is None or attempt.state != READY:
        detail = "This browser has not begun to sign in, or has done so before."
        raise ServiceError("permission_denied", detail=f"{detail} Begin at {settings.public_url}/console.")
    _check_sender(attempt, settings, answer)
    code, error = answer.get("code", ""), answer.get("error", "")
    if error or not 0 < len(code) <= LONGEST_CODE:
        shown_error = f": {error}" if ERROR_CODE.fullmatch(error) else ""
        values: dict[str, Any] = {
            "state": REFUSED,
            "reason": f"{settings.provider_name} did not sign you in{shown_error}.",
        }
    else:
        secret = sealed(settings, {"token": token, "code": code})
        values = {"state": ANSWERED, "secret": secret, "due_time": now()}
    is_ready = ConsoleSignIn.id == attempt.id, ConsoleSignIn.state == READY
    taken = update(ConsoleSignIn).where(*is_ready).values(values).returning(ConsoleSignIn.id)
    if transaction.execute(taken).first() is None:
        raise ServiceError("permission_denied", detail="This answer of the provider was used before.")
    transaction.after_commit(lambda: services.wake_ups.wake(AUTOMATIONS))


def _check_sender(attempt: Attempt, settings: Settings, answer: Mapping[str, str]) -> None:
    """Raises `permission_denied` for an answer to another request, or of another provider (RFC 9207)."""
    expected_state = AttemptSecrets(attempt.secret["token"]).state
    if not secrets.compare_digest(answer.get("state", "").encode("utf-8", "surrogatepass"), expected_state.encode()):
        raise ServiceError("permission_denied", detail="This answer of the provider is not for this browser.")
    issuer = answer.get("iss")
    if issuer != settings.oidc_issuer and (issuer is not None or attempt.secret["names_itself"]):
        raise ServiceError("permission_denied", detail="This answer comes from another provider.")


def start_session(transaction: Transaction, settings: Settings, attempt: Attempt) -> str | None:
    """Uses an accepted attempt up, and starts its session; returns the token of that. None if another request has done
    so, or if the person has no role any more."""
    is_accepted = ConsoleSignIn.id == attempt.id, ConsoleSignIn.state == ACCEPTED
    used = transaction.execute(delete(ConsoleSignIn).where(*is_accepted).returning(ConsoleSignIn.person_id)).first()
    if used is None or used.person_id is None:
        return None
    grants = grants_of_person(transaction, used.person_id)
    if not grants:
        return None
    refresh_token = attempt.secret["refresh_token"]
    return start_for_person(transaction, used.person_id, grants[0], _continuation(settings, refresh_token))


def _continuation(settings: Settings, refresh_token: str | None) -> Continuation:
    if refresh_token is None:
        return Continuation(this_second() + min(LIFETIME_WITHOUT_CHECKS, settings.oidc_session))
    stored_token = encrypted_refresh_token(settings, refresh_token)
    return Continuation(this_second() + settings.oidc_session, seconds_from_now(CHECK_SECONDS), stored_token)


def forget_attempt(transaction: Transaction, attempt_id: int) -> None:
    """Deletes an attempt, whose end the person has been told."""
    transaction.execute(delete(ConsoleSignIn).where(ConsoleSignIn.id == attempt_id))


def grants_of_person(session: Session, person_id: int) -> Sequence[Grant]:
    """What the provider said last that the person may do here, without accounts that are gone."""
    stored = session.scalar(select(ConsolePerson.grants).where(ConsolePerson.id == person_id)) or []
    grants = [Grant(role, account_id) for role, account_id in stored]
    account_ids = [grant.account_id for grant in grants if grant.account_id is not None]
    existing = set(session.scalars(select(Account.id).where(in_json(Account.id, account_ids))))
    return [grant for grant in grants if grant.account_id is None or grant.account_id in existing]
