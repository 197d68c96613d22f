"""The listener process for applications that send by SMTP: `python -m jobs.submission`, at the address
SUBMISSION_LISTEN.

Without that setting it only waits to be stopped, so that a process manager need not know whether it is enabled.
"""

from __future__ import annotations

from app.accounts.auth import KeyUses
from app.submission.listener import SubmissionListener
from jobs.listening import ListeningProcess
from jobs.runtime import process_services


def main() -> None:
    """Runs until it is asked to stop."""
    services = process_services()
    uses = KeyUses(services.database)
    ListeningProcess(
        role="submission",
        variable="SUBMISSION_LISTEN",
        address=services.settings.submission_listen,
        purpose="applications that send",
        sockets="TMS_SUBMISSION_SOCKETS",
        make=lambda: SubmissionListener(services, uses),
    ).main(services, uses.write_if_due)


if __name__ == "__main__":
    main()
