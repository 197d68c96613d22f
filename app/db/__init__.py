"""The database: tables, sessions, and everything in which SQLite and PostgreSQL differ.

No module outside asks which of the two it uses (tests/guards/test_layers.py). How to execute a statement:

- **ORM objects** (`session.scalars(select(Account))`, `session.add`): commands, seed files and settings of an account.
  A few rows, read to be changed, where clarity counts most.
- **Core** (`select(columns)`, `update(table_of(Model))` on `session.connection()`): statements that are built from a
  request, such as filters, and writes of a few rows. Building one costs more than running it: keep a constant one.
- **`PreparedStatement`** (`app/db/prepared.py`): a constant statement on a path that every request, recipient or batch
  takes.
- **Bulk** (`insert_rows`, `insert_new_rows`, `insert_with_children`, `BulkUpdate`, `in_json`): any number of rows or
  values in one statement. Everything whose number a client or a queue decides goes this way.
- **`read_together` and `insert_at_commit`**: several of these in one round trip, where none needs another's answer.
- **`insert_new_rows` and `upsert`** where a unique index decides, `claim_due` for the send queue, `advisory_lock` for a
  lock on something that is not a row.

Measured by `python -m bench.statements` (processor time of this process per row, without the server's; a read is of one
row by a unique column, a write of a thousand rows), as multiples of the first line of each group:

                                  PostgreSQL   SQLite
    select, PreparedStatement     1 (33 us)    1 (10 us)
    select, Core, kept            1.7          2.4
    select, Core, built anew      5.5          15
    select, ORM object            5.6          19
    insert, insert_rows           1 (1.1 us)   1 (4.4 us)
    insert, Core                  10           1.2
    insert, ORM objects           120          11
    update, BulkUpdate            1 (0.6 us)   1 (2.0 us)
    update, Core, executemany     20           1.9
"""
