"""Under which hosts the links of a recipient's message lead somewhere (docs/tracking.md#hosts).

Somebody whose account is not that of a host could otherwise redirect from a name that readers know as another's. A
host that no account has or had is nobody's of these: a proxy may have put it there.
"""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.db.database import Database
from app.db.models import Account, AccountHost, Recipient
from app.db.outage import is_unavailable
from app.settings import Settings


def redirects_under(session: Session, settings: Settings, host: str, recipient_id: int) -> bool:
    """Whether a link of the recipient redirects under the host. One whose recipient is deleted does not under the host
    of an account: whose it was is not known any more. Under a host of the installation this takes no statement."""
    return settings.is_own_host(host) or _is_of_account(session, host, recipient_id) is True


def is_foreign(database: Database, settings: Settings, host: str, recipient_id: int) -> bool:
    """Whether the host is, or was, that of other accounts and not of the recipient's. While the database is not
    available none is: an open of the recipient is recorded later, whatever the host, and harms nobody."""
    if settings.is_own_host(host):
        return False
    try:
        with database.read() as session:
            return _is_of_account(session, host, recipient_id) is False
    except SQLAlchemyError as error:
        if is_unavailable(error):
            return False
        raise


def _is_of_account(session: Session, host: str, recipient_id: int) -> bool | None:
    """Whether the account of the recipient has or had the host, or nobody; None if somebody has, and there is no such
    recipient. What a test account has sent is its live account's. One statement."""
    account = (
        select(func.coalesce(Account.test_of, Account.id))
        .join(Recipient, Recipient.account_id == Account.id)
        .where(Recipient.id == recipient_id)
        .scalar_subquery()
    )
    rows = session.execute(select(AccountHost.account_id, account).where(AccountHost.host == host)).all()
    if not rows:
        return True
    return None if rows[0][1] is None else any(holder == own for holder, own in rows)
