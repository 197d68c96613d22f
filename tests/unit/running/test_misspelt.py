"""Variables that look like misspelt settings are reported with the nearest setting; others are ignored."""

from __future__ import annotations

from dataclasses import fields

from app.http.server import master
from app.infrastructure import replacing
from app.infrastructure.startup_report import misspelt
from app.settings import Settings, variable_of
from tests.support.cases import each

MEANT = {
    "EMAIL_TRANSPORT": "EMAIL_TRANSPORT_URL",
    "EMAIL_URL": "EMAIL_TRANSPORT_URL",
    "EMIAL_TRANSPORT_URL": "EMAIL_TRANSPORT_URL",
    "MAIL_TRANSPORT_URL": "EMAIL_TRANSPORT_URL",
    "email_transport_url": "EMAIL_TRANSPORT_URL",
    "EMAILTRANSPORTURL": "EMAIL_TRANSPORT_URL",
    "SMTP_URL": "EMAIL_TRANSPORT_URL",
    "SMTP_HOST": "EMAIL_TRANSPORT_URL",
    "SMS_URL": "SMS_TRANSPORT_URL",
    "SMPP_URL": "SMS_TRANSPORT_URL",
    "DATABASE_URI": "DATABASE_URL",
    "DATABSE_URL": "DATABASE_URL",
    "REDIS_URI": "REDIS_URL",
    "EMBEDED_REDIS": "EMBEDDED_REDIS",
    "DATADIR": "DATA_DIR",
    "DATA_DIRECTORY": "DATA_DIR",
    "SECRETKEY": "SECRET_KEY",
    "SEND_WORKER": "SEND_WORKERS",
    "TRUSTED_PROXY": "TRUSTED_PROXIES",
    "PUBLIC_URI": "PUBLIC_URL",
    "REQUIRE_HTTP": "REQUIRE_HTTPS",
    "WEBHOOK_SPACE": "WEBHOOK_SPACING",
    "WEBHOOKS_SPACING": "WEBHOOK_SPACING",
    "LOG_FROMAT": "LOG_FORMAT",
    "RATE_LIMITS": "RATE_LIMIT",
    "TMS_PORT": "PORT",
    "Port": "PORT",
}
FOREIGN_VARIABLES = """
    HOME PATH HOSTNAME HOSTTYPE LANG LC_ALL PWD SHELL SHLVL TERM USER MAIL MAILCHECK LOGNAME TZ TMPDIR EDITOR
    DISPLAY SSH_CLIENT SSH_AUTH_SOCK SSH_CONNECTION XDG_RUNTIME_DIR XDG_DATA_DIRS XDG_DATA_HOME XDG_SESSION_ID
    LS_COLORS PYTHONPATH PYTHONUNBUFFERED PIP_INDEX_URL VIRTUAL_ENV UV_CACHE_DIR CONDA_PREFIX FLASK_APP
    FLASK_ENV GUNICORN_CMD_ARGS KUBERNETES_PORT KUBERNETES_SERVICE_HOST REDIS_PORT REDIS_HOST REDIS_SERVICE_HOST
    REDIS_PASSWORD REDIS_PORT_6379_TCP REDIS_TLS_URL POSTGRES_USER POSTGRES_PASSWORD POSTGRES_DB PGHOST
    PGPASSWORD DATABASE_HOST DATABASE_PORT DATABASE_USER DATABASE_PASSWORD DATABASE_NAME TEST_DATABASE_URL
    GITHUB_TOKEN GITHUB_SHA CI CI_JOB_ID NODE_ENV npm_config_cache DOCKER_HOST WEB_CONCURRENCY WEB_PORT
    LOG_LEVEL LOG_DIR LOG_FILE HTTP_PROXY http_proxy NO_PROXY MAKEFLAGS MAKELEVEL INVOCATION_ID JOURNAL_STREAM
    NOTIFY_SOCKET SECRET_KEY_BASE SECRET_TOKEN SESSION_SECRET JWT_SECRET API_KEY BASE_URL APP_URL SENTRY_DSN
    AWS_REGION AWS_SECRET_ACCESS_KEY GIT_AUTHOR_EMAIL COLORTERM TERM_PROGRAM DEBIAN_FRONTEND SENDGRID_API_KEY
    PUBLIC_IP PUBLIC_KEY DNS_SERVER METRICS_PORT RETRY_COUNT MAX_THREADS OMP_NUM_THREADS DATA_PATH CACHE_DIR
    CONFIG_DIR PROMETHEUS_MULTIPROC_DIR DEBUG_PORT E2E_MARK _
"""


@each("name", MEANT)
def test_a_misspelling_is_reported_with_the_nearest_setting(name: str) -> None:
    assert misspelt({name: "x"}) == {name: MEANT[name]}


def test_variables_of_other_programs_are_ignored() -> None:
    assert misspelt(dict.fromkeys(FOREIGN_VARIABLES.split(), "x")) == {}


def test_settings_are_not_misspellings() -> None:
    names = [variable_of(field) for field in fields(Settings)]
    files = [f"{variable_of(field)}_FILE" for field in fields(Settings) if field.metadata["secret"]]
    assert misspelt(dict.fromkeys([*names, *files, "RECEIVER_PORT"], "x")) == {}


def test_an_empty_variable_is_ignored() -> None:
    assert misspelt({"EMAIL_TRANSPORT": " "}) == {}


def test_what_processes_leave_to_those_that_replace_them_is_no_misspelt_setting() -> None:
    assert misspelt(dict.fromkeys((replacing.CHECK, replacing.TYPED, master.WORKERS), "1")) == {}
