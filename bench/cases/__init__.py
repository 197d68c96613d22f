"""The cases of the table, a module each. Every module offers `run(options) -> list[Row]`."""
