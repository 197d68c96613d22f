"""Which database servers are PostgreSQL: others speak its protocol and lack what this service relies on
(docs/databases.md#other-engines)."""

from __future__ import annotations

from sqlalchemy import Engine, text

OLDEST = 14
"""The oldest version of PostgreSQL that the service is tested with."""
OTHER_ENGINES = {
    "CockroachDB": "CockroachDB",
    "-YB-": "YugabyteDB",
    "Redshift": "Amazon Redshift",
    "Greenplum": "Greenplum",
    "Materialize": "Materialize",
    "CrateDB": "CrateDB",
    "RisingWave": "RisingWave",
    "QuestDB": "QuestDB",
    "Spanner": "Spanner",
}
"""What the answer to `version()` contains -> the engine."""
VERSION = text("SELECT version(), CAST(current_setting('server_version_num') AS integer)")


class UnsuitableServer(Exception):
    """A database server that the service cannot use; the text is one line for the operator."""


def check_server(engine: Engine) -> None:
    """Raises `UnsuitableServer` for a server that is another engine, or too old. SQLite is none."""
    if engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            version, number = connection.execute(VERSION).one()
        check_version(version, number)


def check_version(version: str, number: int) -> None:
    """Checks the answers of a server to `version()` and `server_version_num`. Raises `UnsuitableServer`."""
    engine = next((name for mark, name in OTHER_ENGINES.items() if mark in version), None)
    if engine is None and not version.startswith("PostgreSQL "):
        engine = version.split(maxsplit=1)[0] if version.split() else "unknown"
    if engine is not None:
        detail = f"the database server is {engine}, which speaks the protocol of PostgreSQL and is not PostgreSQL"
        raise UnsuitableServer(f"{detail}: use PostgreSQL {OLDEST} or newer")
    if number // 10_000 < OLDEST:
        raise UnsuitableServer(
            f"the database server is PostgreSQL {number // 10_000}: use PostgreSQL {OLDEST} or newer"
        )
