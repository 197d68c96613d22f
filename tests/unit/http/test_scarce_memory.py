"""A body that cannot be parsed for want of memory is not the client's mistake (docs/requests.md#errors)."""

from __future__ import annotations

import subprocess
import sys

PARSES = """
import resource
import orjson
from pathlib import Path
from app.http.bodies import json_value

body = b'{"text": "' + b"a" * 5_000_000 + b'"}'
try:
    orjson.loads(b"{")
except orjson.JSONDecodeError:
    pass  # its error is made once
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 8_000_000, resource.RLIM_INFINITY))
try:
    json_value(body)
except MemoryError as error:
    print("MemoryError")
"""


def test_a_body_for_which_there_is_no_memory_is_no_invalid_json() -> None:
    ended = subprocess.run([sys.executable, "-c", PARSES], capture_output=True, text=True, check=False)
    assert ended.stdout.strip() == "MemoryError", ended.stderr
