"""Job of the queue `automations`: what happens by itself, as time goes by."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING

from app.bulk_actions.run import run_due
from app.db.due import DueAccounts
from app.db.queue import RUN_QUEUE
from app.inbound.simulated import simulate_due
from app.maintenance.audit_seals import seal_entries
from app.network_checks.run import NetworkChecker
from app.runs.releases import RunReleases
from app.runs.work import advance_due
from jobs.runtime import process_services

if TYPE_CHECKING:
    from app.sign_in.run import SignInWorker


def advance() -> None:
    """Advances the runs of automations that are due, for one time slice, carries out what magic addresses simulate
    (docs/testing.md#magic-addresses), begins checks that wait for name servers (docs/console-contents.md#checks) and
    questions to the provider of OpenID Connect (docs/sign-in.md#the-way), and makes slices of bulk actions
    (docs/console-messages.md#bulk-actions) and the seals of the audit log (docs/audit.md#seals)."""
    seal_entries(process_services())
    simulate_due(process_services())
    network_checker().start()
    if process_services().settings.oidc_issuer:
        sign_in_worker().start()
    try:
        run_due(process_services())
    finally:  # a bulk action that fails does not stop automations
        advance_due(process_services(), _due_runs(), _run_releases())


@cache
def network_checker() -> NetworkChecker:
    """The network checker of this process."""
    return NetworkChecker(process_services())


@cache
def sign_in_worker() -> SignInWorker:
    """What asks the provider of OpenID Connect in this process. Only processes that ask load the libraries, which
    takes a quarter of a second."""
    worker: SignInWorker = importlib.import_module("app.sign_in.run").SignInWorker(process_services())
    return worker


@cache
def _due_runs() -> DueAccounts:
    """What this process remembers between two wake-ups."""
    return DueAccounts(RUN_QUEUE)


@cache
def _run_releases() -> RunReleases:
    return RunReleases(process_services())
