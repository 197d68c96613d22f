"""Columns of text that hold nothing about the people whom messages go to: what operators and integrators define, names
of our own, and ids. The senders of messages are among them (docs/privacy.md#what-is-not-removed).

A new column is named here or in `places`: a test asks.
"""

from __future__ import annotations

from collections.abc import Mapping

IMPERSONAL: Mapping[str, str] = {
    "account_hosts": "host proof",
    "accounts": (
        "allowed_networks brand_colour brand_name default_from_address default_from_name email_priority name "
        "owner_email rate_limit retain_audit retain_captured retain_content retain_logs retain_recipients "
        "sms_priority time_zone"
    ),
    "api_keys": "access_level former_name name token_hash token_hint",
    "audit_entries": (
        "action actor actor_kind address_digest changes counts object object_id object_name request_id source via"
    ),
    "audit_seals": "digest hash purged_mark",
    "automation_passed_steps": "detail result",
    "automation_runs": "reason state step watched_event",
    "automation_step_counts": "result",
    "automation_steps": "kind name",
    "automation_versions": "definition",
    "automations": "action kind name release state",
    "blocked_addresses": "kind",
    "bulk_actions": "action asked_by left_out query state",
    "console_links": "made_by token_hash",
    "console_sessions": "name token_hash",
    "contact_imports": "digest options",
    "delayed_purges": "stage",
    "digest_key": "key",
    "dkim_keys": "algorithm private_key public_key selector state",
    "domain_backoffs": "domain sender_domain",
    "domain_reports": "content kind report_id reporter",
    "domains": "findings name return_path_host tracking_host",
    "hook_tokens": "fingerprint token",
    "idempotency_records": "fingerprint holder",
    "inbound_records": "fingerprint kind",
    "list_fields": "key name options type",
    "lists": "name stop_words",
    "message_versions": (
        "actor actor_kind body_html body_text changed from_address from_name name reply_to subject thumbnail_url via"
    ),
    "messages": "body_html body_text from_address from_name name reply_to subject thumbnail_url type",
    "network_checks": "asked_by kind",
    "processes": "host name roles secret_keys version",
    "purge_positions": "stage",
    "recipient_steps": "step transport",
    "recipients": "open_type state type uuid",
    "relay_refusals": "domains reply transport",
    "reply_parts": "number",
    "routes": "country_prefixes name priority sender_domain transports type",
    "routing_version": "version",
    "schema_state": "code_in_use oldest_code",
    "send_links": "link_type",
    "send_pauses": "domain kind paused_by reason",
    "send_queue": "held_state priority state type worker",
    "sends": "from_address from_name group_name priority request_id transport type unsubscribe_type",
    "sms_senders": "address kind",
    "soft_bounces": "kind",
    "transactional_groups": "name type",
    "transports": "name type url",
    "trigger_firings": "action",
    "unsubscribers": "kind",
    "webhook_attempts": "batch_id outcome",
    "webhook_secrets": "key_id secret",
    "webhooks": "barred batch_id chosen_events chosen_lists url worker",
}
"""Table -> the names of its columns."""
