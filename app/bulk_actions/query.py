"""The query of a bulk action, as text: that of the console's messages, of those that are held, or of its
suppressions."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qsl, quote, urlencode

from app.db.models import Account
from app.errors import ServiceError
from app.query.conditions import Equals, Query
from app.query.grammar import parse_filters
from app.query.parameters import parameter_error
from app.recipients.collection import OPERATOR_RECIPIENTS, MatchingRecipients, Place
from app.sends.cancel import CANCELLABLE
from app.sends.holds.held import HELD_MESSAGES_SHAPE, HeldMessages, MatchingHeldMessages
from app.sends.outcomes.requeue import RETRYABLE
from app.suppressions.filters import CONSOLE_SUPPRESSIONS
from app.suppressions.matching import MatchingBlocked

Pairs = Sequence[tuple[str, str]]

MAX_QUERY_LENGTH = 10_000
"""Characters of a query."""
ADDRESS_FILTERS = ("email", "mobile")
"""Filters that an action has not: what is stored of it names nobody, and the messages to one person are few."""


def query_text(pairs: Pairs) -> str:
    """The query as it is stored and shown. Raises `too_long`."""
    text = urlencode(pairs, quote_via=quote, safe=":,", errors="replace")
    if len(text) > MAX_QUERY_LENGTH:
        raise ServiceError(
            "too_long", field="query", detail=f"The query has more than {MAX_QUERY_LENGTH:,} characters."
        )
    return text


def query_of(text: str) -> list[tuple[str, str]]:
    """The parameters of such a text."""
    return parse_qsl(text, keep_blank_values=True, errors="replace")


def parse_query(account: Account, pairs: Pairs) -> Query:
    """The account's query for its messages, without anything that says how a page looks. Raises the errors of the
    query."""
    return parse_filters(pairs, OPERATOR_RECIPIENTS, is_test=account.test_of is not None)


def held_matches(account: Account, pairs: Pairs) -> MatchingHeldMessages:
    """The messages that match and are held after a restore. Raises the errors of the query."""
    return MatchingHeldMessages(HeldMessages(account.id), parse_filters(pairs, HELD_MESSAGES_SHAPE.resource))


def retryable_matches(account: Account, pairs: Pairs, newest: Place | None = None) -> MatchingRecipients:
    """The messages that match and can be in need of a retry, by their state. Raises the errors of the query, and
    `parameter_not_available` for a filter by address."""
    query = parse_query(account, pairs)
    _check_many(query, "retry its messages one by one")
    return MatchingRecipients.of(account.id, query, RETRYABLE, newest)


def cancellable_matches(account: Account, pairs: Pairs, newest: Place | None = None) -> MatchingRecipients:
    """The messages that match and have not left. Raises the errors of the query, and `parameter_not_available` for a
    filter by address."""
    query = parse_query(account, pairs)
    _check_many(query, "cancel its messages one by one")
    return MatchingRecipients.of(account.id, query, CANCELLABLE, newest)


def unblockable_matches(account: Account, pairs: Pairs, newest: Place | None = None) -> MatchingBlocked:
    """The blocked addresses that match. Raises the errors of the query, and `parameter_not_available` for a filter by
    address."""
    query = parse_filters(pairs, CONSOLE_SUPPRESSIONS)
    _check_many(query, "unblock it on its own")
    return MatchingBlocked(account.id, query, newest)


def _check_many(query: Query, instead: str) -> None:
    """Raises `parameter_not_available` for a filter that names one address, also within its text, and for metadata."""
    for condition in query.conditions:
        name = condition.filter.name
        if condition.filter.is_keyed:
            detail = f"{name}: a bulk action cannot select by metadata, which may name somebody; select by a tag."
            raise parameter_error("parameter_not_available", name, detail)
        texts = [str(alternative.value) for alternative in condition.alternatives if isinstance(alternative, Equals)]
        if name in ADDRESS_FILTERS or any("@" in text for text in texts):
            detail = f"{name}: a bulk action cannot select a single address; {instead}."
            raise parameter_error("parameter_not_available", name, detail)
