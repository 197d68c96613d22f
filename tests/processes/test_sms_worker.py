"""The real worker process and an sms gateway: it binds at its start, even with nothing to send (docs/sms.md)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from app.clock import this_second
from app.db.models import Account, SmsSender
from app.services import Services, make_services
from app.settings import from_environment
from tests.support.prepared import migrated_file
from tests.support.redis_process import RedisProcess
from tests.support.rows import Rows
from tests.support.servers import PATIENCE, short_folder, wait_until
from tests.support.smpp import OK
from tests.support.smsc import Smsc

NUMBER, MOBILE = "61400000001", "61411111111"


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """A data folder with a migrated database, and a Redis."""
    with ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        redis = RedisProcess(folder)
        redis.start()
        stack.callback(redis.stop)
        variables = {"DATA_DIR": str(folder), "REDIS_URL": redis.url, "LOG_FORMAT": "json"}
        migrated_file(from_environment(variables).data_dir / "tms.sqlite3")
        yield variables


def add_account(services: Services) -> Rows:
    moment = this_second()
    with services.database.write() as transaction:
        account = Account(name="Acme", owner_confirmed=True, creation_time=moment, last_modified_time=moment)
        transaction.add(account)
        transaction.flush()
        rows = Rows(services, account.id)
    rows.add_webhook()
    rows.add(SmsSender, address=NUMBER, kind="virtual_number", list_id=None, creation_time=moment)
    return rows


def test_a_worker_is_bound_while_there_is_nothing_to_send(environment: dict[str, str]) -> None:
    rows = add_account(make_services(from_environment(environment)))
    with Smsc() as smsc:
        variables = {**os.environ, **environment, "SMS_TRANSPORT_URL": smsc.url()}
        command = [sys.executable, "-m", "jobs.worker", "sends"]
        with subprocess.Popen(command, env=variables, stderr=subprocess.DEVNULL) as process:
            try:
                assert smsc.deliver(MOBILE, NUMBER, b"Anybody there?") == OK
                wait_until(lambda: len(rows.payloads()) == 1, "the reply is reported")
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE) == 0
                smsc.wait(lambda: not smsc.bound)
            finally:
                process.kill()
    rows.services.database.close()


def test_a_gateway_that_cannot_be_used_is_reported_in_one_line(environment: dict[str, str]) -> None:
    variables = {**os.environ, **environment, "SMS_TRANSPORT_URL": "smpp://gateway.example"}
    ended = subprocess.run(
        [sys.executable, "-m", "jobs.worker", "sends"],
        env=variables,
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    assert ended.returncode == 2
    assert b"smpp://gateway.example: written smpp://user:password@host:2775" in ended.stderr
