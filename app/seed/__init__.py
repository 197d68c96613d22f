"""The seed file: the desired state of a database (docs/seed.md).

`read` turns the file into plain data, `shape` and `nouns` check it and name the path of an error, `load` and the
modules beside it bring the database to that state in one transaction. Missing rows are created, existing ones are
updated only if they differ, and nothing is deleted; so a second run writes nothing.
"""
