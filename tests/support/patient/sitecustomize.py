"""Python imports this when it starts. It extends the launcher's timeouts to what a slow machine may need: the tests of
`make run` prove that its processes end by themselves, not how soon."""

from __future__ import annotations

import sys

SECONDS = 120.0

if sys.orig_argv[-2:] == ["-m", "app.launcher"]:
    from app.launcher import embedded_redis, service, supervisor

    supervisor.GRACE = supervisor.LAST_GRACE = embedded_redis.START_SECONDS = SECONDS
    await_port = service.await_port

    def await_port_of_orphans(host: str, port: int, seconds: float, setting: str = "PORT") -> None:
        """Without orphans an occupied port is reported at once."""
        await_port(host, port, seconds and SECONDS, setting)

    service.await_port = await_port_of_orphans
