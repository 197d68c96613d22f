"""The seed file: a description of a state to reach (docs/seed.md).

`read` turns the file into plain data, `shape` and `nouns` check it and name the path of what is wrong, `apply` and the
modules beside it bring the database to that state in one transaction. What is missing is created, what exists is
changed only where it differs, nothing is deleted; so a second run writes nothing.
"""

from app.seed.load import load_seed
from app.seed.report import SeedReport
from app.seed.shape import SeedError

__all__ = ["SeedError", "SeedReport", "load_seed"]
