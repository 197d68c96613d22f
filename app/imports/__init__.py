"""Imports of CSV files: `kinds` says what can be imported, `importer` checks a file and writes its rows, and `rows` are
what both speak of. Commands and pages parse, call it and render (docs/code-layout.md#imports-of-files)."""
