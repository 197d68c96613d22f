"""Ending messages that no worker is sending: when they are cancelled, dropped, forgotten, or found to have arrived."""

from __future__ import annotations

from collections.abc import Sequence

from app.db.database import Transaction
from app.recipients.row import update_queue_entries
from app.recipients.states import RecipientState
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.transitions import RetryRules, Transition
from app.sends.outcomes.write import report_transitions, write_outcomes


def settle(
    transaction: Transaction, settler: str, results: Sequence[AttemptResult], rules: RetryRules
) -> list[Transition]:
    """Writes the outcomes of messages whose queue entries the caller has locked, and reports them after the commit.
    `settler` is the worker of the entries until then. A fixed number of statements."""
    if not results:
        return []
    ids = [result.recipient_id for result in results]
    update_queue_entries(transaction, ids, state=RecipientState.SENDING, worker=settler)
    transitions = write_outcomes(transaction, settler, results, rules)
    transaction.after_commit(lambda: report_transitions(transitions))
    return transitions
