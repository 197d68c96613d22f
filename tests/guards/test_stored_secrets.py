"""Every column that holds secrets is known to `secrets rotate` (docs/secrets.md#rotating-secret_key)."""

from __future__ import annotations

import ast

from app.maintenance.stored_secrets import encrypted_columns
from tests.support.sources import sources

ENCRYPTING = {
    "app.accounts.sessions": "console_sessions.refresh_token",
    "app.accounts.signing_keys": "dkim_keys.private_key",
    "app.events.webhooks": "webhook_secrets.secret",
    "app.infrastructure.digests": "digest_key.key",
    "app.routing.transports": "transports.url",
    "app.sends.secret_values": "send_queue.secret_values",
    "app.sign_in.attempts": "console_sign_ins.secret",
}
"""Module -> the column into which it writes what it encrypts, which has the type `Encrypted`."""

IN_NO_COLUMN = {"app.maintenance.stored_secrets", "app.sends.outcomes.mirror"}
"""What encrypts the columns anew, and what Redis has for a moment: a fallback reads that."""


def imports_encrypt(node: ast.AST) -> bool:
    if not isinstance(node, ast.ImportFrom) or node.module != "app.secret_keys":
        return False
    return any(alias.name == "encrypt" for alias in node.names)


def test_what_is_encrypted_is_stored_in_columns_that_say_so() -> None:
    encrypting = {source.name for source in sources() for node in ast.walk(source.tree) if imports_encrypt(node)}
    assert encrypting - IN_NO_COLUMN == set(ENCRYPTING)
    assert {str(column) for column in encrypted_columns()} == set(ENCRYPTING.values())
