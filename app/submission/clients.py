"""Who may submit mail: the key of a session, by the rules of the API (docs/smtp-submission.md#logging-in)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sqlalchemy import select

from app.accounts.auth import KeyUses, Principal, check_allowed, find_principal, refuse_published
from app.accounts.rate_limit import Portions, count_attempt, count_request, counted_attempts
from app.addresses import domain_of
from app.db.models import ApiKey, Domain
from app.errors import ServiceError
from app.network.addresses import IpAddress, network_of
from app.services import Services

MAX_FAILURES_OF_KEY = 10
MAX_FAILURES_OF_ADDRESS = 50
"""Failed logins in a minute, of one key from wherever, and of one address with whatever key."""
FAILURE_SECONDS = 60
PUBLISHED_KEY = "This key of the demo is public, so it does not work where others can reach the service."
LONGEST_TOKEN = 1000
SCOPE = "send.email"
WRONG_PASSWORD = "The password must be a key of the API that exists, is not revoked and has no expiry date."  # noqa: S105


@dataclass(frozen=True, slots=True)
class Submitter:
    """The key of a session, and the list that its mails go to unless they name another."""

    principal: Principal
    list_id: int | None


class Clients:
    """Checks the clients of one process. The methods wait for the database, so they are called in a thread."""

    def __init__(self, services: Services, uses: KeyUses) -> None:
        self._services = services
        self._uses = uses
        self._portions = Portions()

    def log_in(self, token: str, address: IpAddress | None) -> None:
        """Checks the key with this token. Raises `ServiceError`: `too_many_requests` after too many failures of the key
        or the address."""
        counters = self._counters(token, address)
        self._check_failures(counters)
        try:
            self._principal(token, address)
        except ServiceError:
            for counter in counters:
                count_attempt(self._services, counter, FAILURE_SECONDS)
            raise

    def begin_mail(self, token: str, address: IpAddress | None, sender: str) -> Submitter:
        """Checks that the key may still submit a mail, and that the account may send from the domain of the envelope
        sender; counts the mail against the rate limit. Raises `ServiceError`."""
        principal = self._principal(token, address)
        self._uses.note(principal.key_id)
        allowance = count_request(self._services, self._portions, principal.key_id, principal.rate_limit)
        if allowance is not None and allowance.is_exceeded:
            raise ServiceError("too_many_requests", detail=f"The rate limit is used up for {allowance.reset} seconds.")
        with self._services.database.read() as session:
            is_verified = (
                select(Domain.id)
                .where(
                    Domain.account_id == principal.account_id,
                    Domain.name == domain_of(sender),
                    Domain.verified_time.is_not(None),
                )
                .exists()
            )
            row = session.execute(select(ApiKey.list_id, is_verified).where(ApiKey.id == principal.key_id)).one()
        if not row[1]:
            detail = f"MAIL FROM: the domain {domain_of(sender)} is not a verified domain of the account."
            raise ServiceError("invalid_from_address_domain", detail=detail)
        return Submitter(principal, row[0])

    def _principal(self, token: str, address: IpAddress | None) -> Principal:
        settings = self._services.settings
        listening = settings.submission_listen
        try:
            refuse_published(token, settings, lambda: listening[0] if listening else "")
        except ServiceError as error:
            raise ServiceError(error.code, detail=PUBLISHED_KEY) from None
        with self._services.database.read() as session:
            try:
                principal = find_principal(session, token[:LONGEST_TOKEN])
            except ServiceError as error:
                raise ServiceError(error.code, detail=WRONG_PASSWORD) from None
        if principal.allowed_networks:
            check_allowed(principal.allowed_networks, address)
        if SCOPE not in principal.scopes:
            detail = f"This needs the scope {SCOPE}, which keys of the level {principal.access_level} lack."
            raise ServiceError("permission_denied", detail=detail)
        return principal

    def _counters(self, token: str, address: IpAddress | None) -> tuple[str, str]:
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return f"smtp:key:{digest}", f"smtp:address:{network_of(address) or 'local'}"

    def _check_failures(self, counters: tuple[str, str]) -> None:
        for counter, most in zip(counters, (MAX_FAILURES_OF_KEY, MAX_FAILURES_OF_ADDRESS), strict=True):
            failures = counted_attempts(self._services, counter, FAILURE_SECONDS)
            if failures is not None and failures.number >= most:
                detail = f"There were too many failed logins. Try again in {failures.reset} seconds."
                raise ServiceError("too_many_requests", detail=detail)
