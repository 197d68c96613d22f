"""The floor of delivery with the promises that the bare floor leaves out, written as leanly and in one thread.

`python -m bench.floors.promises DATABASE_URL SMTP_PORT` is used as `bench.floors.delivery` is. It claims rows under a
lease, which is on the disk before anything is sent; looks up the recipients and the suppressed addresses; fills three
templates, with HTML encoding in that of the HTML body; signs the return path and the opt-out link of the recipient;
writes each reply to a journal at once, and to the log; and writes the outcomes of the rows that it still holds, with a
timeline step and a count. Error handling is still left out.
"""

from __future__ import annotations

import base64
import hmac
import html
import os
import socket
import sys
import tempfile
import time
from typing import Any

import orjson
import psycopg

from bench.floors.smtp import greeted
from bench.mail import HTML, SUBJECT, TEXT

CREATE = """
CREATE TABLE IF NOT EXISTS promised_mails (
    id bigint PRIMARY KEY, uuid text NOT NULL, email text NOT NULL, "values" jsonb NOT NULL, state text NOT NULL,
    attempts int NOT NULL DEFAULT 0, worker text, lease_time timestamptz, sent_time timestamptz
);
CREATE INDEX IF NOT EXISTS promised_mails_queued ON promised_mails (id) WHERE state = 'queued';
CREATE TABLE IF NOT EXISTS promised_steps (mail_id bigint, moment timestamptz, step text, detail text);
CREATE INDEX IF NOT EXISTS promised_steps_mail ON promised_steps (mail_id);
CREATE TABLE IF NOT EXISTS promised_counts (id int PRIMARY KEY, delivered bigint NOT NULL);
INSERT INTO promised_counts VALUES (1, 0) ON CONFLICT DO NOTHING
"""
CLAIM = """
UPDATE promised_mails SET state = 'sending', worker = %s, lease_time = now() + interval '90 seconds',
    attempts = attempts + 1
WHERE id = ANY(ARRAY(
    SELECT id FROM promised_mails WHERE state = 'queued' ORDER BY id LIMIT 400 FOR UPDATE SKIP LOCKED))
RETURNING id, uuid, email, "values", attempts
"""
RECIPIENTS = 'SELECT id, email, "values", state FROM promised_mails WHERE id = ANY(%s)'
SELECT_SUPPRESSED = """
SELECT address FROM blocked_addresses WHERE account_id = 1 AND kind = 'email' AND address = ANY(%s)
UNION ALL SELECT address FROM unsubscribers WHERE account_id = 1 AND kind = 'email' AND address = ANY(%s)
"""
STILL_HELD = "SELECT id, attempts FROM promised_mails WHERE id = ANY(%s) AND worker = %s ORDER BY id FOR UPDATE"
MARK_DONE = """
UPDATE promised_mails SET state = 'delivered', worker = NULL, lease_time = NULL, sent_time = given.moment
FROM json_to_recordset(%s::json) given (id bigint, moment timestamptz) WHERE promised_mails.id = given.id
"""
STEPS = """
INSERT INTO promised_steps SELECT id, moment, 'sent', reply
FROM json_to_recordset(%s::json) given (id bigint, moment timestamptz, reply text)
"""
COUNT = "UPDATE promised_counts SET delivered = delivered + %s WHERE id = 1"

WORKER, KEY = "floor", b"a key for the tokens of the floor"
PUBLIC = "http://127.0.0.1:8000"
HEADERS = (
    "Message-ID: <%s@bench.example>\r\nDate: Sat, 21 Nov 2026 00:00:00 +0000\r\nFrom: Bench <hello@bench.example>\r\n"
    "To: %s\r\nSubject: %s\r\nList-Unsubscribe: <%s>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"
    "MIME-Version: 1.0\r\nAuto-Submitted: auto-generated\r\n"
    'Content-Type: multipart/alternative; boundary="%s"\r\n\r\n'
)
PARTS = (
    "--%s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 7bit\r\n\r\n%s\r\n"
    "--%s\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: 7bit\r\n\r\n%s\r\n--%s--\r\n"
)


def _template(source: str) -> str:
    """The template for the operator `%`."""
    parts = source.split("%%")
    return "".join(part if place % 2 == 0 else f"%({part})s" for place, part in enumerate(parts))


SUBJECT_TEMPLATE, TEXT_TEMPLATE = _template(SUBJECT), _template(TEXT).replace("\n", "\r\n")
HTML_TEMPLATE = _template(HTML)


def main(database_url: str, port: int) -> None:
    """See the module."""
    with (
        psycopg.connect(database_url) as database,
        greeted(port) as (link, stream),
        tempfile.TemporaryFile("ab", buffering=0) as journal,
        open(os.devnull, "w") as log,
    ):
        print("ready", flush=True)
        sys.stdin.readline()
        while rows := database.execute(CLAIM, (WORKER,)).fetchall():
            database.commit()
            made = _send(link, stream, journal, _look_up(database, rows))
            _write(database, made)
            log.write("".join(orjson.dumps({"message": "sent", **mail}).decode() + "\n" for mail in made))
            journal.truncate(0)
    print("done", flush=True)


def _look_up(database: psycopg.Connection[Any], rows: list[Any]) -> list[Any]:
    """The rows whose recipients exist and are not suppressed."""
    addresses = [row[2] for row in rows]
    recipients = {row[0]: row for row in database.execute(RECIPIENTS, ([row[0] for row in rows],))}
    suppressed = {row[0] for row in database.execute(SELECT_SUPPRESSED, (addresses, addresses))}
    database.commit()
    return [row for row in rows if row[0] in recipients and row[2] not in suppressed]


def _send(link: socket.socket, stream: Any, journal: Any, rows: list[Any]) -> list[dict[str, Any]]:
    """Sends all mails of a claim; the reply to each is journalled before those to the commands of the next are read."""
    waiting, before, made = b"", None, list[dict[str, Any]]()
    for row in rows:
        sender, content = _compose(row)
        link.sendall(waiting + b"MAIL FROM:<%b>\r\nRCPT TO:<%b>\r\nDATA\r\n" % (sender, row[2].encode()))
        if waiting:
            made.append(_note(journal, before, stream.readline()))
        answers = [stream.readline() for _ in range(3)]
        if answers[-1][:3] != b"354":
            raise RuntimeError(f"refused: {answers}")
        waiting, before = content, row
    link.sendall(waiting)
    made.append(_note(journal, rows[-1], stream.readline()))
    return made


def _note(journal: Any, row: Any, reply: bytes) -> dict[str, Any]:
    if reply[:3] != b"250":
        raise RuntimeError("refused at the end")
    result = {"id": row[0], "uuid": row[1], "attempt": row[4], "moment": _now(), "reply": reply.decode().strip()}
    journal.write(orjson.dumps(result) + b"\n")
    return result


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())


def _compose(row: Any) -> tuple[bytes, bytes]:
    """The envelope sender, and the mail with the end of its data."""
    row_id, uuid, email, values, _ = row
    number = row_id.to_bytes(8, "big")
    sender = base64.b32encode(number + hmac.digest(KEY, b"b" + number, "sha256")[:10]).decode().rstrip("=").lower()
    token = base64.urlsafe_b64encode(number + hmac.digest(KEY, b"u" + number, "sha256")[:10]).decode().rstrip("=")
    text = TEXT_TEMPLATE % values
    rich = HTML_TEMPLATE % {name: html.escape(value) for name, value in values.items()}
    boundary = uuid.replace("-", "")
    head = HEADERS % (uuid, email, SUBJECT_TEMPLATE % values, f"{PUBLIC}/u/{token}", boundary)
    content = (head + PARTS % (boundary, text, boundary, rich, boundary)).encode().replace(b"\r\n.", b"\r\n..")
    return f"bounces+{sender}@bench.example".encode(), content + b".\r\n"


def _write(database: psycopg.Connection[Any], made: list[dict[str, Any]]) -> None:
    held = dict(database.execute(STILL_HELD, ([mail["id"] for mail in made], WORKER)).fetchall())
    kept = [mail for mail in made if held.get(mail["id"]) == mail["attempt"]]
    given = orjson.dumps(kept).decode()
    database.execute(MARK_DONE, (given,))
    database.execute(STEPS, (given,))
    database.execute(COUNT, (len(kept),))
    database.commit()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
