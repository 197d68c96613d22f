"""The garbage collector while a process starts (docs/architecture.md#the-start)."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.cases import each
from tests.support.launched import ROOT
from tests.support.prepared import migrated_file
from tests.support.servers import PATIENCE, short_folder

RUN = """
import atexit, gc, runpy, sys
def tell():
    print("collector on:", gc.isenabled(), "full collections:", gc.get_stats()[2]["collections"])
    print("objects left out:", "most" if gc.get_freeze_count() > len(gc.get_objects()) else "few")
atexit.register(tell)
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@each(
    "command",
    [("jobs.worker", "sends"), ("gunicorn", "wsgi:application"), ("flask", "--app", "wsgi", "routes")],
)
def test_a_process_collects_no_garbage_before_its_modules_are_loaded(command: tuple[str, ...]) -> None:
    with short_folder() as folder:
        environ = {
            "DATA_DIR": str(folder),
            "DATABASE_URL": migrated_file(folder / "tms.sqlite3"),
            "TMS_CHECK_START": "1",
        }
        ended = subprocess.run(
            [sys.executable, "-c", RUN, *command],
            cwd=ROOT,
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
    assert ended.stdout.splitlines()[-2:] == ["collector on: True full collections: 0", "objects left out: most"]
