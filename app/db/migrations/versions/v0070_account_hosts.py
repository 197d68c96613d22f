"""A host of a sending domain belongs to one account, and what an account had is kept, because links of its mails lead
there (docs/deliverability.md#hosts-of-a-domain).

Of accounts that use the same host, the one whose verified domain is at or above it gets it, else one whose domain is
trusted, else the oldest domain's. The mails of the others have the hosts of the service from then on, and their links
that were sent stay valid under the host. The flag of a host that is used is set for trusted domains, too, for which the
release before does not ask; so both releases use the hosts of the accounts that have them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

from app.clock import this_second

revision = "0070"
down_revision = "0069"
branch_labels = None
depends_on = None

phase = "expand"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)
NAMES = ("tracking_host", "return_path_host")

ACCOUNTS = sa.table("accounts", sa.column("id", BIG), sa.column("test_of", BIG))
DOMAINS = sa.table(
    "domains",
    *(sa.column("id", BIG), sa.column("account_id", BIG), sa.column("name", sa.String())),
    *(sa.column("trusted", sa.Boolean()), sa.column("verified_time", TIME)),
    *(sa.column(name, sa.String()) for name in NAMES),
    *(sa.column(f"{name}_ready", sa.Boolean()) for name in NAMES),
)
HOSTS = sa.table(
    "account_hosts",
    *(sa.column("account_id", BIG), sa.column("host", sa.String()), sa.column("proof", sa.String())),
    *(sa.column("creation_time", TIME), sa.column("released_time", TIME)),
)


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "account_hosts",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("proof", sa.String(), nullable=False),
        sa.Column("creation_time", TIME, nullable=False),
        sa.Column("released_time", TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_account_hosts_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_account_hosts")),
        sa.UniqueConstraint("account_id", "host", name=op.f("uq_account_hosts_account_id_host")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_account_hosts_host", "account_hosts", ["host"])
    held = sa.text("released_time IS NULL")
    op.create_index(
        "ix_account_hosts_held", "account_hosts", ["host"], unique=True, postgresql_where=held, sqlite_where=held
    )
    _divide()


def downgrade() -> None:
    """Back to the previous revision."""
    op.drop_table("account_hosts")


def _divide() -> None:
    """Gives each host to one account."""
    connection = op.get_bind()
    domains = connection.execute(sa.select(DOMAINS).order_by(DOMAINS.c.id)).all()
    tests = dict(
        connection.execute(sa.select(ACCOUNTS.c.id, ACCOUNTS.c.test_of).where(ACCOUNTS.c.test_of.is_not(None))).all()
    )
    live = [one for one in domains if one.account_id not in tests]
    holders: dict[str, int] = {}
    for host, users in _users(live).items():
        first = min(users, key=lambda one: (not _is_covered(live, one, host), not one.trusted, one.id))
        holders[host] = first.account_id
        connection.execute(sa.insert(HOSTS), [*_rows(live, host, users, first)])
    for one in domains:
        account_id = tests.get(one.account_id, one.account_id)
        ready = {
            f"{name}_ready": _is_used(one, name) and holders.get(getattr(one, name), account_id) == account_id
            for name in NAMES
        }
        if any(getattr(one, name) != value for name, value in ready.items()):
            connection.execute(sa.update(DOMAINS).where(DOMAINS.c.id == one.id).values(ready))


def _users(domains: list[Any]) -> dict[str, list[Any]]:
    """Host -> the domains in whose mails it is."""
    users: dict[str, list[Any]] = {}
    for one in domains:
        for name in NAMES:
            if _is_used(one, name):
                users.setdefault(getattr(one, name), []).append(one)
    return users


def _is_used(domain: Any, name: str) -> bool:
    return bool(getattr(domain, name) and (domain.trusted or getattr(domain, f"{name}_ready")))


def _is_covered(domains: list[Any], user: Any, host: str) -> bool:
    """Whether a verified domain of the account is at or above the host."""
    names = [one.name for one in domains if one.account_id == user.account_id and one.verified_time]
    return any(host == name or host.endswith(f".{name}") for name in names)


def _rows(domains: list[Any], host: str, users: list[Any], first: Any) -> Iterator[dict[str, Any]]:
    moment = this_second()
    for account_id in dict.fromkeys(one.account_id for one in users):
        is_first = account_id == first.account_id
        yield {
            "account_id": account_id,
            "host": host,
            "proof": "domain" if is_first and _is_covered(domains, first, host) else "operator",
            "creation_time": moment,
            "released_time": None if is_first else moment,
        }
