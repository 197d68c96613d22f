"""Internals of SQLAlchemy that app/db/prepared.py and app/db/bulk.py rely on.

Both bypass SQLAlchemy for speed. An upgrade that changes one of these fails here, by name, before it writes or reads
wrong data.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import String, bindparam, literal_column, null, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from app.db.bulk import POSTGRESQL, BulkUpdate
from app.db.models import Account, ApiKey, Attachment, Base, Contact, Recipient, table_of
from app.db.outage import is_unavailable
from app.db.prepared import DIALECT, DIALECT_OF_SQLITE, PreparedStatement, execute_on_driver, read_rows
from app.db.types import BigId, UtcDateTime
from tests.support.cases import each
from tests.support.statements import StatementCounter
from tests.support.tenants import Tenant

MOMENT = datetime(2026, 1, 31, 10, tzinfo=UTC)
psycopg_only = pytest.mark.postgresql("SQLite has another driver")


def changed(what: str) -> str:
    """The message of a failure."""
    return f"SQLAlchemy {sqlalchemy.__version__} {what}: app/db/prepared.py and app/db/bulk.py rely on it"


def test_compiled_text_has_the_placeholders_of_the_driver() -> None:
    """The text goes to psycopg unchanged, with the values by the names of the statement's parameters."""
    compiled: Any = (
        select(Account.id)
        .where(Account.name == bindparam("name", type_=String), Account.owner_confirmed.is_(True))
        .compile(dialect=DIALECT)
    )
    selected = "SELECT accounts.id \nFROM accounts \n"
    condition = "WHERE accounts.name = %(name)s::VARCHAR AND accounts.owner_confirmed IS true"
    assert str(compiled) == selected + condition, changed("compiles to other text")
    assert list(compiled.binds) == ["name"], changed("names parameters in another way")


def test_constants_of_a_statement_are_parameters_with_their_value() -> None:
    compiled: Any = select(Account.id).where(Account.name == "Acme").compile(dialect=DIALECT)
    assert compiled.params == {"name_1": "Acme"}, changed("binds constants in another way")
    free: Any = select(Account.id).where(Account.name == bindparam("wanted")).compile(dialect=DIALECT)
    assert free.params == {"wanted": None}, changed("gives parameters without a value another one")


@pytest.mark.parametrize(
    ("column", "value", "converted"),
    [
        pytest.param(Recipient.creation_time, MOMENT, MOMENT, id="instant"),
        pytest.param(Recipient.uuid, "a", None, id="text"),
        pytest.param(Recipient.id, 1, None, id="integer"),
    ],
)
def test_types_convert_the_values_they_bind(column: Any, value: Any, converted: Any) -> None:
    """None means that a type leaves the value to the driver."""
    convert = column.type.dialect_impl(DIALECT).bind_processor(DIALECT)
    assert (convert and convert(value)) == converted, changed("converts bound values in another way")


@each("written", ["2026-01-31 10:00:00.000000", "2026-01-31 10:00:00", "2026-01-31 11:00:00.000000+01:00"])
def test_times_of_sqlite_are_read_as_instants(written: str) -> None:
    type_ = UtcDateTime().dialect_impl(DIALECT_OF_SQLITE)
    read, bind = type_.result_processor(DIALECT_OF_SQLITE, None), type_.bind_processor(DIALECT_OF_SQLITE)
    assert read
    assert bind
    assert (read(written), read(None), bind(None)) == (MOMENT, None, None)
    assert bind(MOMENT) == "2026-01-31 10:00:00.000000"
    with pytest.raises(ValueError, match="naive"):
        bind(MOMENT.replace(tzinfo=None))


def test_json_is_bound_in_the_wrapper_of_the_driver() -> None:
    convert: Any = Contact.values.type.dialect_impl(DIALECT).bind_processor(DIALECT)
    assert convert([1, 2]).obj == [1, 2], changed("binds JSON in another way")


@each(
    ("column", "written"),
    [
        (Contact.id, "BIGINT"),
        (Contact.email, "VARCHAR"),
        (Contact.creation_time, "TIMESTAMP WITH TIME ZONE"),
        (Contact.values, "JSONB"),
        (Contact.is_active, "BOOLEAN"),
        (Attachment.content, "BYTEA"),
    ],
)
def test_types_compile_to_column_types_of_a_record(column: Any, written: str) -> None:
    assert column.type.compile(POSTGRESQL) == written, changed("writes a type in another way")


def test_names_are_quoted_only_where_sql_requires_it() -> None:
    quote = POSTGRESQL.identifier_preparer.quote
    assert (quote("values"), quote("email")) == ("values", "email"), changed("quotes names in another way")
    assert quote("order") == '"order"', changed("quotes names in another way")


def test_defaults_are_constants_or_functions_of_one_argument() -> None:
    columns = table_of(Contact).columns
    active: Any = columns["is_active"].default
    values: Any = columns["values"].default
    assert (active.is_callable, active.arg) == (False, True), changed("keeps defaults in another way")
    assert (values.is_callable, values.arg(None)) == (True, {}), changed("keeps defaults in another way")


def test_each_table_is_read_alike_by_the_driver_and_by_sqlalchemy(tenant: Tenant) -> None:
    """The driver returns every column type as SQLAlchemy would convert it."""
    tenant.add_message()
    tenant.new_contact(tenant.add_list(), email="ann@example.com")
    with tenant.services.database.read() as session:
        for mapper in Base.registry.mappers:
            table = table_of(mapper.class_)
            statement = select(table).order_by(*table.primary_key.columns).limit(50)
            expected = [tuple(row) for row in session.connection().execute(statement)]
            assert [tuple(row) for row in PreparedStatement(statement).tuples(session)] == expected, changed("converts")
            assert [tuple(row) for row in read_rows(session, statement)] == expected, changed("converts")


def test_a_constant_of_a_statement_may_be_null(tenant: Tenant) -> None:
    clear = BulkUpdate(
        {"row": BigId},
        lambda values: update(table_of(ApiKey)).where(ApiKey.id == values["row"]).values(last_used_time=None),
    )
    with tenant.services.database.write() as transaction:
        ids = transaction.scalars(select(ApiKey.id).where(ApiKey.account_id == tenant.id)).all()
        transaction.execute(update(ApiKey).where(ApiKey.id.in_(ids)).values(last_used_time=MOMENT))
        clear.run(transaction, [{"row": key_id} for key_id in ids])
        used = select(ApiKey.last_used_time).where(ApiKey.id.in_(ids)).distinct()
        assert transaction.scalars(used).all() == [None]


def test_a_prepared_statement_is_seen_converted_and_refused_like_one_of_the_engine(tenant: Tenant) -> None:
    database = tenant.services.database
    use = PreparedStatement(
        update(table_of(ApiKey))
        .where(ApiKey.account_id == bindparam("account_id"))
        .values(last_used_time=bindparam("used", type_=UtcDateTime()))
    )
    table = table_of(Account)
    nameless = PreparedStatement(update(table).where(table.c.id == bindparam("account_id")).values(name=null()))
    with database.write() as transaction, StatementCounter(database.engine) as counter:
        assert use.run(transaction, account_id=tenant.id, used=MOMENT) == len(tenant.tokens)
        assert counter.count >= 1, changed("keeps its listeners elsewhere")
    with database.read() as session:
        used = select(ApiKey.last_used_time).where(ApiKey.account_id == tenant.id).distinct()
        assert session.scalars(used).all() == [MOMENT], changed("converts bound values in another way")
    with pytest.raises(IntegrityError), database.write() as transaction:
        nameless.run(transaction, account_id=tenant.id)
    with pytest.raises(DBAPIError) as wrong, database.read() as session:
        PreparedStatement(select(literal_column("nothing")).select_from(table)).rows(session)
    assert wrong.value.orig is not None
    assert not is_unavailable(wrong.value)


@pytest.fixture
def session(tenant: Tenant) -> Any:
    with tenant.services.database.read() as reading:
        yield reading


@psycopg_only
def test_the_driver_connection_is_wrapped_twice_by_sqlalchemy(session: Session) -> None:
    driver = session.connection().connection.driver_connection
    assert isinstance(driver, psycopg.Connection), changed("keeps the driver's connection elsewhere")


@psycopg_only
def test_listeners_of_an_engine_are_notified_of_statements_on_the_driver(tenant: Tenant, session: Session) -> None:
    with StatementCounter(tenant.services.database.engine) as counter:
        assert execute_on_driver(session.connection(), "SELECT 1", {}).fetchone() == (1,)
    assert counter.count == 1, changed("keeps its listeners elsewhere")


@psycopg_only
def test_errors_on_the_driver_are_converted_to_those_of_sqlalchemy(session: Session) -> None:
    connection = session.connection()
    with pytest.raises(DBAPIError) as wrong:
        execute_on_driver(connection, "SELECT nothing", {})
    assert isinstance(wrong.value.orig, psycopg.errors.UndefinedColumn), changed("wraps errors in another way")
    assert not wrong.value.connection_invalidated
    insert = "INSERT INTO accounts SELECT * FROM accounts LIMIT 1"
    with pytest.raises(IntegrityError):
        execute_on_driver(connection, insert, {})


@psycopg_only
def test_a_result_has_the_drivers_cursor(session: Session) -> None:
    result = session.connection().execute(text("SELECT 1"))
    cursor: Any = result.cursor
    assert isinstance(cursor, psycopg.Cursor), changed("keeps the driver's cursor elsewhere")
    result.close()
