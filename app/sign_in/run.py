"""Asking the provider of OpenID Connect, in threads of a worker: for people who sign in, and whether those who have
done so still have their roles (docs/sign-in.md#sessions).

A code works only once: if whoever redeems it dies, its person signs in again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import select, update
from sqlalchemy.exc import SQLAlchemyError

from app.accounts.sessions import encrypted_refresh_token, end_session
from app.audit.actor import acting, service_actor
from app.clock import now, seconds_from_now
from app.db.database import Transaction
from app.db.models import ConsolePerson, ConsoleSession, ConsoleSignIn
from app.infrastructure.leased_work import LEASE_SECONDS, LeasedWork
from app.secret_keys import SecretKeys, SecretUnreadable, decrypt
from app.services import Services
from app.sign_in.attempts import ACCEPTED, BEGUN, CHECK_SECONDS, READY, REFUSED, AttemptSecrets, opened, sealed
from app.sign_in.due import due_attempts, due_checks, has_due
from app.sign_in.people import end_sessions_beyond, grants_in, named_grants, store_person
from app.sign_in.provider import Person, Provider, ProviderRefusal, ProviderUnavailable, Tokens, refresh_token_of

VIA = "OpenID Connect"
"""How the audit log says by what the service ends sessions."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _ClaimedAttempt:
    id: int
    state: str
    secret: str


@dataclass(frozen=True, slots=True)
class _ClaimedCheck:
    session_id: int
    person_id: int
    issuer: str
    subject: str
    refresh_token: str


_Work = _ClaimedAttempt | _ClaimedCheck


class SignInWorker(LeasedWork[_Work]):
    """The questions of one process to the provider."""

    def __init__(self, services: Services) -> None:
        super().__init__("question to the provider", services.stopping, self._next, self._answer)
        self._services = services
        self._provider = Provider(services.settings)

    def _next(self) -> _Work | None:
        with self._services.database.read() as session:
            if not has_due(session, self._services.settings):
                return None
        return self._services.database.transact(_claim)

    def _answer(self, work: _Work) -> None:
        with acting(replace(service_actor(), via=VIA)):
            try:
                if isinstance(work, _ClaimedCheck):
                    self._check(work)
                else:
                    self._advance(work)
            except SQLAlchemyError:
                raise
            except Exception:
                logger.exception("what the provider of OpenID Connect has answered cannot be understood")

    def _advance(self, attempt: _ClaimedAttempt) -> None:
        """Brings an attempt to its next state."""
        values = self._refused("does not answer as it should. Try again in a moment.")
        try:
            values = self._prepare(attempt) if attempt.state == BEGUN else self._redeem(attempt)
        except (ProviderUnavailable, SecretUnreadable) as error:
            logger.warning("the provider of OpenID Connect cannot be asked: %s", error)
        except ProviderRefusal as error:
            logger.warning("a sign-in by OpenID Connect was refused: %s", error)
            values = self._refused("did not confirm who you are. Sign in again.")
        finally:
            with self._services.database.write() as transaction:
                is_claimed = ConsoleSignIn.id == attempt.id, ConsoleSignIn.state == attempt.state
                transaction.execute(update(ConsoleSignIn).where(*is_claimed).values(due_time=None, **values))

    def _refused(self, reason: str) -> dict[str, object]:
        return {"state": REFUSED, "reason": f"{self._services.settings.provider_name} {reason}"}

    def _prepare(self, work: _ClaimedAttempt) -> dict[str, object]:
        """The way to the provider."""
        settings = self._services.settings
        token: str = opened(settings, work.secret)["token"]
        url, names_itself = (
            self._provider.authorization_url(AttemptSecrets(token)),
            self._provider.describe().names_itself,
        )
        return {"state": READY, "secret": sealed(settings, {"token": token, "url": url, "names_itself": names_itself})}

    def _redeem(self, work: _ClaimedAttempt) -> dict[str, object]:
        """Who has signed in, if a role follows from what the provider says."""
        settings = self._services.settings
        secret = opened(settings, work.secret)
        person = self._provider.redeem(secret["code"], AttemptSecrets(secret["token"]))
        with self._services.database.write() as transaction:
            grants = grants_in(transaction, named_grants(settings, person.claims))
            if not grants:
                logger.warning("a sign-in by OpenID Connect was refused: no role follows from the claims")
                return {"state": REFUSED, "reason": f"{settings.provider_name} names no role for you in this service."}
            row = store_person(transaction, settings.oidc_issuer, person.subject, person.claims, grants)
            end_sessions_beyond(transaction, row.id, grants)
            stored = sealed(settings, {"refresh_token": person.refresh_token})
            return {"state": ACCEPTED, "secret": stored, "person_id": row.id}

    def _check(self, check: _ClaimedCheck) -> None:
        """Asks whether a person still has a role. While the provider does not answer, sessions go on until their
        end."""
        settings = self._services.settings
        try:
            if check.issuer != settings.oidc_issuer:
                raise ProviderRefusal("the person is one of another provider")
            given = self._provider.refresh(decrypt(settings.secret_keys, check.refresh_token))
            check = self._renewed(check, given)
            person = self._provider.ask_about(check.subject, given)
        except ProviderUnavailable as error:
            logger.warning("the provider of OpenID Connect cannot be asked: %s", error)
            return
        except (ProviderRefusal, SecretUnreadable) as error:
            logger.info("a session at the console ends: %s", error, extra={"session": check.session_id})
            with self._services.database.write() as transaction:
                for session_id in _sessions_of(transaction, self._services.settings.secret_keys, check):
                    end_session(transaction, session_id)
            return
        self._go_on(check, person)

    def _renewed(self, check: _ClaimedCheck, given: Tokens) -> _ClaimedCheck:
        """The check with the new refresh token, if one was given. It is stored before anything else is asked, which may
        fail: the old one may not work again."""
        token = encrypted_refresh_token(self._services.settings, refresh_token_of(given))
        if token is None:
            return check
        with self._services.database.write() as transaction:
            is_checked = ConsoleSession.id.in_(_sessions_of(transaction, self._services.settings.secret_keys, check))
            transaction.execute(update(ConsoleSession).where(is_checked).values(refresh_token=token))
        return replace(check, refresh_token=token)

    def _go_on(self, check: _ClaimedCheck, person: Person) -> None:
        """Keeps what the provider says now, and ends the sessions whose role is gone."""
        settings = self._services.settings
        with self._services.database.write() as transaction:
            if transaction.get(ConsolePerson, check.person_id) is None:
                return  # forgotten meanwhile
            grants = grants_in(transaction, named_grants(settings, person.claims))
            row = store_person(transaction, settings.oidc_issuer, person.subject, person.claims, grants)
            # Before the roles are judged: a session that is checked for now must have one of them.
            is_checked = ConsoleSession.id.in_(_sessions_of(transaction, self._services.settings.secret_keys, check))
            end_sessions_beyond(transaction, row.id, grants)
            next_time = seconds_from_now(CHECK_SECONDS)
            transaction.execute(update(ConsoleSession).where(is_checked).values(check_time=next_time))


def _sessions_of(transaction: Transaction, secret_keys: SecretKeys, check: _ClaimedCheck) -> Sequence[int]:
    """The sessions with the refresh token of the check, locked: not the one that was claimed, if its person has chosen
    another role meanwhile. The token itself is compared, which may have been encrypted anew."""
    has_token = ConsoleSession.person_id == check.person_id, ConsoleSession.refresh_token.is_not(None)
    query = select(ConsoleSession.id, ConsoleSession.refresh_token).where(*has_token).with_for_update()
    transaction.execute(query)  # waits for such a choice, whose session only a later statement sees
    checked = _token_in(secret_keys, check.refresh_token)
    return [row.id for row in transaction.execute(query) if _token_in(secret_keys, row.refresh_token) == checked]


def _token_in(secret_keys: SecretKeys, stored: str) -> str:
    """The refresh token that is encrypted there; if its key is lost, what is stored."""
    try:
        return decrypt(secret_keys, stored)
    except SecretUnreadable:
        return stored


def _claim(transaction: Transaction) -> _Work | None:
    """The next piece of work, under a lease: people who wait come first."""
    moment, lease = now(), seconds_from_now(LEASE_SECONDS)
    attempts = select(ConsoleSignIn).where(*due_attempts(moment)).order_by(ConsoleSignIn.due_time).limit(1)
    attempt = transaction.scalars(attempts.with_for_update(skip_locked=True)).first()
    if attempt is not None:
        attempt.due_time = lease
        return _ClaimedAttempt(attempt.id, attempt.state, attempt.secret)
    sessions = select(ConsoleSession).where(*due_checks(moment)).order_by(ConsoleSession.check_time).limit(1)
    session = transaction.scalars(sessions.with_for_update(skip_locked=True)).first()
    if session is None:
        return None
    session.check_time = lease
    person = transaction.get(ConsolePerson, session.person_id)
    issuer, subject = ("", "") if person is None else (person.issuer, person.subject)
    return _ClaimedCheck(session.id, session.person_id or 0, issuer, subject, session.refresh_token or "")
