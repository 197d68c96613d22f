"""Servers that speak PostgreSQL's protocol and are not PostgreSQL are refused (docs/databases.md#other-engines)."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text

from app.db import migrate
from app.db.server import UnsuitableServer, check_version
from tests.support.cases import each
from tests.support.servers import migrated_database

SPEAKS = "which speaks the protocol of PostgreSQL and is not PostgreSQL: use PostgreSQL 14 or newer"
OTHERS = [
    (
        "CockroachDB CCL v24.3.1 (x86_64-pc-linux-gnu, built 2024/11/18 22:15:52, go1.22.8 X:nocoverageredesign)",
        130_000,
    ),
    ("PostgreSQL 15.2-YB-2.25.0.0-b0 on x86_64-pc-linux-gnu, compiled by clang version 17.0.6, 64-bit", 150_002),
    ("PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2, Redshift 1.0.117891", 80_002),
    ("PostgreSQL 12.12 (Greenplum Database 7.1.0 build commit:e7c2b1f1) on x86_64-pc-linux-gnu, 64-bit", 120_012),
    ("CrateDB 5.9.5 (built f3d2b4c/NA, Linux 6.1 amd64, OpenJDK 64-Bit Server VM 22.0.2+9)", 140_000),
    ("", 140_000),
]
"""Answers of other servers to `version()` and `server_version_num`."""
ENGINES = ("CockroachDB", "YugabyteDB", "Amazon Redshift", "Greenplum", "CrateDB", "unknown")
OURS = [
    ("PostgreSQL 17.2 on x86_64-pc-linux-musl, compiled by gcc (Alpine 14.2.0) 14.2.0, 64-bit", 170_002),
    ("PostgreSQL 14.15 (Debian 14.15-1.pgdg120+1) on x86_64-pc-linux-gnu, compiled by gcc, 64-bit", 140_015),
    ("PostgreSQL 16.4 (EnterpriseDB Advanced Server 16.4.0) on x86_64-pc-linux-gnu, 64-bit", 160_004),
]


@each(("answers", "engine"), zip(OTHERS, ENGINES, strict=True))
def test_another_engine_is_refused_by_its_name(answers: tuple[str, int], engine: str) -> None:
    with pytest.raises(UnsuitableServer) as refused:
        check_version(*answers)
    assert str(refused.value) == f"the database server is {engine}, {SPEAKS}"


def test_an_old_server_is_refused_by_its_version() -> None:
    with pytest.raises(UnsuitableServer) as refused:
        check_version("PostgreSQL 13.18 on x86_64-pc-linux-gnu, compiled by gcc, 64-bit", 130_018)
    assert str(refused.value) == "the database server is PostgreSQL 13: use PostgreSQL 14 or newer"


@each("answers", OURS)
def test_postgresql_is_accepted_whoever_has_built_it(answers: tuple[str, int]) -> None:
    check_version(*answers)


def test_no_migration_runs_on_another_engine(postgres: str) -> None:
    """On a real server whose `version()` is that of another one: its schema stays empty."""
    with migrated_database(postgres) as url:
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text("CREATE SCHEMA foreign_engine"))
            answer = "AS $$ SELECT 'CockroachDB CCL v24.3.1 (x86_64-pc-linux-gnu)' $$"
            connection.execute(text(f"CREATE FUNCTION foreign_engine.version() RETURNS text LANGUAGE sql {answer}"))
            connection.execute(text("DROP TABLE alembic_version"))
            name = connection.execute(text("SELECT current_database()")).scalar_one()
            path = "foreign_engine, pg_catalog, public"
            connection.execute(text(f'ALTER DATABASE "{name}" SET search_path = {path}'))
        engine.dispose()
        with pytest.raises(migrate.MigrationError) as refused:
            migrate.upgrade(url)
        assert str(refused.value) == f"the database server is CockroachDB, {SPEAKS}"
        assert migrate.current(url) is None
