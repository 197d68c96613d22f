"""The peer of the sending cases: django-post_office as its manual sets it up, in processes of its own.

It has its own database on the same PostgreSQL server. It is called without HTTP, and has no keys, no validation and no
groups: it does less than the service. A process prints `ready`, waits for a line, works and prints `done`, so that
several start together and the start of Django is not measured.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command
from psycopg.conninfo import conninfo_to_dict

URL = "PEER_DATABASE_URL"
SMTP_PORT = "PEER_SMTP_PORT"


def configure() -> None:
    """Sets Django up for the database, and the SMTP server if there is one, that the environment names."""
    parts = conninfo_to_dict(os.environ[URL])
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts["dbname"],
        "USER": parts.get("user", ""),
        "PASSWORD": parts.get("password", ""),
        "HOST": parts.get("host", ""),
        "PORT": parts.get("port", ""),
    }
    settings.configure(
        DATABASES={"default": database},
        INSTALLED_APPS=["django.contrib.contenttypes", "post_office"],
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
        EMAIL_BACKEND="post_office.EmailBackend",
        EMAIL_HOST="127.0.0.1",
        EMAIL_PORT=int(os.environ.get(SMTP_PORT, "25")),
        DEFAULT_FROM_EMAIL="Bench <hello@bench.example>",
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
        SECRET_KEY="bench",
        LOGGING={"version": 1, "loggers": {"post_office": {"level": "WARNING"}}},
        # By default it logs every mail that it sends; the service logs more.
        POST_OFFICE={"BACKENDS": {"default": "django.core.mail.backends.smtp.EmailBackend"}},
    )
    django.setup()


def drafts(first: int, count: int, texts: dict[str, str]) -> list[dict[str, Any]]:
    """The arguments of `send` for so many recipients; `texts` are the templates of subject, text and HTML."""
    return [
        {
            "recipients": [f"person{number}@customers.example"],
            "sender": "Bench <hello@bench.example>",
            "subject": texts["subject"],
            "message": texts["body_text"],
            "html_message": texts["body_html"],
            "context": wildcards(number),
        }
        for number in range(first, first + count)
    ]


def wildcards(number: int) -> dict[str, str]:
    """The five values of the recipient with this number."""
    return {
        "first_name": f"First{number % 977}",
        "last_name": f"Last{number % 1009}",
        "order": f"A-{number:08d}",
        "total": f"{number % 500}.50",
        "link": f"https://shop.bench.example/orders/{number}",
    }


TEXTS = {
    "subject": "Your order {{ order }}",
    "body_text": "Hello {{ first_name }} {{ last_name }},\n\nyour order {{ order }} of {{ total }} is on its way:\n"
    "{{ link }}\n\nThank you\n",
    "body_html": "<html><body><p>Hello {{ first_name }} {{ last_name }},</p><p>your order <b>{{ order }}</b> of "
    '{{ total }} is <a href="{{ link }}">on its way</a>.</p><p>Thank you</p></body></html>',
}


def _prepare() -> None:
    call_command("migrate", verbosity=0)


def _send(count: int, recipients: int) -> None:
    """`count` sends to `recipients` each, each committed separately, as a request would be."""
    from post_office import mail  # noqa: PLC0415 - its models can be imported only once Django is set up

    mail.send(**drafts(0, 1, TEXTS)[0])  # what Django prepares at its first statement is not measured
    _wait_for_start()
    for number in range(count):
        if recipients == 1:
            mail.send(**drafts(number, 1, TEXTS)[0])
        else:
            mail.send_many(drafts(number * recipients, recipients, TEXTS))


def _queue(count: int) -> None:
    """Queues `count` mails, in chunks of 1,000."""
    from post_office import mail  # noqa: PLC0415 - its models can be imported only once Django is set up

    for first in range(0, count, 1000):
        mail.send_many(drafts(first, min(1000, count - first), TEXTS))


def _deliver() -> None:
    """Does what the command `send_queued_mail` of the manual does, in this process."""
    from post_office.mail import send_queued_mail_until_done  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        _wait_for_start()
        send_queued_mail_until_done(f"{folder}/lock", processes=1, log_level=1)


def _wait_for_start() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def main(arguments: list[str]) -> None:
    """`prepare`, `send COUNT RECIPIENTS`, `queue COUNT` or `deliver`."""
    configure()
    match arguments:
        case ["prepare"]:
            _prepare()
        case ["send", count, recipients]:
            _send(int(count), int(recipients))
        case ["queue", count]:
            _queue(int(count))
        case ["deliver"]:
            _deliver()
        case _:
            raise SystemExit(main.__doc__)
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
