"""The floor of case G: what RQ itself takes from the enqueuing of a job to its start, without a fork.

`python -m bench.floors.start REDIS_URL` works until it is terminated.
"""

from __future__ import annotations

import sys
import time

from redis import Redis
from rq import Queue
from rq.worker import SimpleWorker

QUEUE, TIMES = "floor", "bench:starts"


def note() -> None:
    """The job: records its start on the clock that all processes of the machine share."""
    _connection().rpush(TIMES, time.monotonic())


def _connection() -> Redis:
    return Redis.from_url(sys.argv[1])


def main(redis_url: str) -> None:
    """See the module."""
    connection = Redis.from_url(redis_url)
    SimpleWorker([Queue(QUEUE, connection=connection)], connection=connection).work(logging_level="WARNING")


if __name__ == "__main__":
    main(sys.argv[1])
