"""The filters of suppressions (docs/querying.md#filters)."""

from __future__ import annotations

from sqlalchemy import ColumnElement, false, func, not_, or_

from app.addresses import ADDRESS_KINDS
from app.db.models import BlockedAddress
from app.query.conditions import Equals, FilterCondition, IsNull
from app.query.fields import Filter, FilterType, Resource

UNSUBSCRIBED, BLOCKED = STATES = ("unsubscribed", "blocked")
SUPPRESSIONS = Resource(
    name="suppression",
    collection="suppressions",
    filters={
        **{kind: Filter(kind, FilterType.EMAIL if kind == "email" else FilterType.STRING) for kind in ADDRESS_KINDS},
        "state": Filter("state", FilterType.ENUM, STATES),
        "reason": Filter("reason", FilterType.STRING),
        "reply": Filter("reply", FilterType.STRING),
        "creation_time": Filter("creation_time", FilterType.TIMESTAMP),
    },
    fields=(),
)
"""What is unsubscribed or blocked; only the latter has a reason and a reply. A filter by the reply is about a part of
it."""


def quoting(condition: FilterCondition) -> ColumnElement[bool]:
    """The entries whose reply contains the text of the filter, without regard to case: a reply names ids and times that
    differ from address to address."""
    reply, clauses = BlockedAddress.reply, list[ColumnElement[bool]]([false()])
    for alternative in condition.alternatives:
        if isinstance(alternative, IsNull):
            clauses.append(reply.is_(None))
        elif isinstance(alternative, Equals) and alternative.value:
            clauses.append(reply.icontains(str(alternative.value), autoescape=True))
    return not_(func.coalesce(or_(*clauses), false())) if condition.op == "ne" else or_(*clauses)
