"""The floor of delivery: a filled template of bytes, pipelined SMTP, one UPDATE and commit per 100 mails.

`python -m bench.floors.delivery DATABASE_URL SMTP_PORT [KEY]` prints `ready`, waits for a line, sends all queued rows
of the table `floor_mails`, and prints `done`. It has one connection and sends one mail per round trip: the commands of
the next mail are sent with the end of the one before. With the file of a private key, it signs each mail (DKIM, RSA).
"""

from __future__ import annotations

import base64
import hashlib
import socket
import sys
from pathlib import Path
from typing import Any

import psycopg
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding

from bench.floors.smtp import greeted

CREATE = """
CREATE TABLE IF NOT EXISTS floor_mails (
    id bigint PRIMARY KEY, email text NOT NULL, "values" jsonb NOT NULL, state text NOT NULL, sent_time timestamptz
);
CREATE INDEX IF NOT EXISTS floor_mails_queued ON floor_mails (id) WHERE state = 'queued';
"""
CLAIM = (
    "SELECT id, email, \"values\" FROM floor_mails WHERE state = 'queued' ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED"
)
MARK_DONE = "UPDATE floor_mails SET state = 'sent', sent_time = now() WHERE id = ANY(%s)"

TEMPLATE = (
    b"MIME-Version: 1.0\r\nFrom: Bench <hello@bench.example>\r\nTo: %(email)s\r\nSubject: Your order %(order)s\r\n"
    b"Message-ID: <%(id)d@bench.example>\r\nDate: Sat, 21 Nov 2026 00:00:00 +0000\r\n"
    b'Content-Type: multipart/alternative; boundary="b"\r\n\r\n'
    b"--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nHello %(first_name)s %(last_name)s,\r\n\r\n"
    b"your order %(order)s of %(total)s is on its way:\r\n%(link)s\r\n\r\nThank you\r\n"
    b"--b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<html><body><p>Hello %(first_name)s %(last_name)s,</p>"
    b"<p>your order <b>%(order)s</b> of %(total)s is <a href=https://shop.bench.example/orders>on its way</a>: "
    b"%(link)s.</p><p>Thank you</p></body></html>\r\n--b--\r\n"
)


def main(database_url: str, port: int, key: str | None = None) -> None:
    """See the module."""
    signer: Any = serialization.load_pem_private_key(Path(key).read_bytes(), None) if key else None
    with psycopg.connect(database_url) as database, greeted(port) as (link, stream):
        print("ready", flush=True)
        sys.stdin.readline()
        while rows := database.execute(CLAIM).fetchall():
            _send(link, stream, rows, signer)
            database.execute(MARK_DONE, ([row[0] for row in rows],))
            database.commit()
    print("done", flush=True)


def _send(link: socket.socket, stream: Any, rows: list[Any], signer: Any) -> None:
    """Sends all mails of a claim; the reply to each is read with the replies to the commands of the next."""
    waiting = b""
    for row_id, email, values in rows:
        address = email.encode()
        link.sendall(waiting + b"MAIL FROM:<b%d@bench.example>\r\nRCPT TO:<%b>\r\nDATA\r\n" % (row_id, address))
        answers = [stream.readline() for _ in range(4 if waiting else 3)]
        if answers[-1][:3] != b"354":
            raise RuntimeError(f"refused: {answers}")
        fields = {name.encode(): value.encode() for name, value in values.items()}
        content = TEMPLATE % {**fields, b"id": row_id, b"email": address}
        waiting = (_signature(content, signer) + content if signer else content) + b".\r\n"
    link.sendall(waiting)
    if stream.readline()[:3] != b"250":
        raise RuntimeError("refused at the end")


def _signature(content: bytes, signer: Any) -> bytes:
    """A DKIM signature in the simplest form, over the body and four headers."""
    head, _, body = content.partition(b"\r\n\r\n")
    digest = base64.b64encode(hashlib.sha256(body).digest())
    fields = (
        b"DKIM-Signature: v=1; a=rsa-sha256; c=simple/simple; d=bench.example; s=a; h=From:To:Subject:Date; bh="
        + digest
        + b"; b="
    )
    signature = signer.sign(head + fields, padding.PKCS1v15(), hashes.SHA256())
    return fields + base64.b64encode(signature) + b"\r\n"


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
