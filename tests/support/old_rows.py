"""An account and a send as migrations find them: statements of their time, not of today's models."""

from __future__ import annotations

ACCOUNT = """
INSERT INTO accounts (id, name, owner_confirmed, allowed_networks, creation_time, last_modified_time)
VALUES (1, 'Acme', :yes, '[]', :time, :time)
"""
SEND = """
INSERT INTO sends (id, account_id, request_id, creation_time, type, group_id, group_name, from_address,
    include_unsubscribed, recipient_data_html_encoded)
VALUES (1, 1, 'request', :time, 'email', 1, 'group', 'hello@acme.example', :no, :yes)
"""
