"""What the suites that attack, break and fuzz the service are told to run."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence

DATABASES = ("sqlite", "postgresql")


def chosen_names(
    parser: argparse.ArgumentParser, only: str | None, all_names: Collection[str], default: Sequence[str] | None = None
) -> list[str]:
    """The names of `--only`, else the default, else all; ends the program for a name that is not known."""
    if only is None:
        return list(all_names if default is None else default)
    names = only.split(",")
    if unknown := [name for name in names if name not in all_names]:
        parser.error(f"there is no {', '.join(unknown)}; --list names all")
    return names


def add_database_options(parser: argparse.ArgumentParser) -> None:
    """`--sqlite` and `--postgresql`."""
    parser.add_argument("--sqlite", action="store_true", help="on SQLite alone")
    parser.add_argument("--postgresql", action="store_true", help="on PostgreSQL alone")


def chosen_databases(options: argparse.Namespace, default: Sequence[str] = DATABASES) -> list[str]:
    """The databases that the options name, else the default."""
    return [name for name in DATABASES if getattr(options, name)] or list(default)
