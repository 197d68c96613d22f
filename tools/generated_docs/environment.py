"""Writes deploy/environment.example from the settings: `python -m tools.generated_docs.environment`, called by
`make docs`."""

from __future__ import annotations

import textwrap
from dataclasses import Field, fields
from typing import Any

from app.markdown import without_links
from app.settings import Settings, variable_of

HEAD = """\
# The settings of the service, for /etc/tms/environment (systemd's EnvironmentFile=) or an env_file of containers:
# VARIABLE=value, one to a line, no quotes needed, nothing behind the value.
#
# Each is shown with its default, or as an example where the default is described in words. The process units and the
# compose file set DATA_DIR, HOST and LOG_FORMAT themselves. Set before the first start: DATABASE_URL, REDIS_URL,
# PUBLIC_URL, EMAIL_TRANSPORT_URL, and TRUSTED_PROXIES=1 behind a proxy.
#
# A setting with a secret, marked (*), can stand in a file instead: SECRET_KEY_FILE=/run/secrets/secret_key
#
# Generated from app/settings.py by `make docs`; docs/settings.md is the same as a page.
"""
EXAMPLES = {
    "DATA_DIR": "/var/lib/tms",
    "SEED": "/etc/tms/seed.yaml",
    "DATABASE_URL": "postgresql://tms:password@127.0.0.1/tms",
    "REDIS_URL": "redis://127.0.0.1:6379/0",
    "EMBEDDED_REDIS": "path",
    "EMAIL_TRANSPORT_URL": "smtp://user:password@relay.example.com:587",
    "SMS_TRANSPORT_URL": "smpp://user:password@gateway.example.com:2775",
    "PUBLIC_URL": "https://api.example.com",
    "BOUNCE_DOMAIN": "bounces.example.com",
    "CONSOLE_HOSTS": "console.example.com",
    "INBOUND_LISTEN": "127.0.0.1:8024",
    "DATABASE_READ_URL": "postgresql://tms:password@db2.example.com/tms",
    "RELAY_CONNECTIONS": "20",
    "SUBMISSION_LISTEN": "127.0.0.1:2525",
    "SUBMISSION_CERTIFICATE": "/etc/tms/smtp.example.com.pem",
    "SUBMISSION_KEY": "/etc/tms/smtp.example.com.key",
    "SENDGRID_WEBHOOK_SECRET": "0123456789abcdef0123456789abcdef",
    "POSTMARK_WEBHOOK_SECRET": "0123456789abcdef0123456789abcdef",
    "MAILGUN_SIGNING_KEY": "0123456789abcdef0123456789abcdef",
    "SPARKPOST_WEBHOOK_SECRET": "0123456789abcdef0123456789abcdef",
    "SES_TOPICS": "arn:aws:sns:eu-west-1:123456789012:mail",
    "REQUIRE_HTTPS": "on",
    "SECRET_KEY": "at-least-32-characters-the-same-for-all-processes",
    "SECRET_KEY_FALLBACKS": "the-key-before-of-32-characters-or-more,and-the-one-before-that-just-as-long",
    "OIDC_ISSUER": "https://id.example.com/realms/staff",
    "OIDC_CLIENT_ID": "tms",
    "OIDC_CLIENT_SECRET": "0123456789abcdef0123456789abcdef",
    "OIDC_NAME": "Example",
    "OIDC_ROLES": "mail-admins=operator,shop-team=manager:Shop,auditors=reader",
    "SPF_INCLUDE": "spf.example.com",
    "DNS_RESOLVER": "127.0.0.1:53",
    "GEOIP_DATABASE": "/var/lib/GeoIP/GeoLite2-Country.mmdb",
    "TRACES_URL": "http://127.0.0.1:4318/v1/traces",
    "LOG_FORMAT": "json",
    "LOG_FILE": "/var/lib/tms/service.log",
}
"""For settings whose default is computed, or is no value that one could write."""
WIDTH = 118


def example() -> str:
    """The whole file."""
    return HEAD + "".join(_entry(setting) for setting in fields(Settings))


def _entry(setting: Field[Any]) -> str:
    meaning, default = _plain(setting.metadata["meaning"]), _plain(setting.metadata["shown"] or "")
    if default and default != value(setting):
        meaning += f"; default: {default}"
    if setting.metadata["secret"]:
        meaning += " (*)"
    text = textwrap.fill(meaning, WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n" + textwrap.indent(text, "# ") + f"\n#{variable_of(setting)}={value(setting)}\n"


def _plain(text: str) -> str:
    """Markdown without its links and marks of code."""
    return without_links(text).replace("`", "")


def value(setting: Field[Any]) -> str:
    """The default as it is written into the variable, or an example."""
    if variable_of(setting) in EXAMPLES:
        return EXAMPLES[variable_of(setting)]
    if isinstance(setting.default, bool):
        return "on" if setting.default else "off"
    if setting.metadata["shown"]:
        return str(setting.metadata["shown"]).strip("`")
    return f"{setting.default:g}" if isinstance(setting.default, float) else str(setting.default)


if __name__ == "__main__":
    print(example(), end="")
