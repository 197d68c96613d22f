"""The reasons for which a message waits stand in one table, which delivery goes through, `sends explain` puts into
words and the page shows (docs/waiting.md)."""

from __future__ import annotations

import re

from app.recipients.states import POSTPONEMENTS, WaitReason
from app.sends.delivery.postponed import CHECKS_OF_CLAIMED, CHECKS_OF_LOADED
from app.sends.explain.waits import WAITS
from tests.support.sources import ROOT

ROW = re.compile(r"^\| `(\w+)` \| .+ \| (.+) \| (.+) \|$", re.MULTILINE)
AT_DISPATCH = (WaitReason.NO_TRANSPORT, WaitReason.TRANSPORT)
"""Found when a message is given to its transport."""
COUNTED = {True: "no", False: "yes"}


def test_every_reason_has_its_row() -> None:
    assert list(POSTPONEMENTS) == list(WaitReason)


def test_delivery_looks_for_each_reason_in_the_order_of_the_table() -> None:
    assert [*CHECKS_OF_CLAIMED, *CHECKS_OF_LOADED, *AT_DISPATCH] == list(POSTPONEMENTS)


def test_explain_has_words_for_each_reason() -> None:
    assert WAITS.keys() == POSTPONEMENTS.keys()


def test_a_reason_that_ends_an_attempt_has_a_text_and_a_code() -> None:
    for reason, how in POSTPONEMENTS.items():
        assert (how.text is None) == (how.status is None), reason


def test_the_page_shows_the_table() -> None:
    page = (ROOT / "docs" / "waiting.md").read_text("utf-8")
    section, _, _ = page.partition("\n## ")
    rows_of_table = [(reason.value, how.waits, COUNTED[how.text is None]) for reason, how in POSTPONEMENTS.items()]
    assert ROW.findall(section) == rows_of_table


def test_the_page_of_metrics_names_the_reasons_without_an_attempt() -> None:
    page = (ROOT / "docs" / "monitoring" / "metrics.md").read_text("utf-8")
    (named,) = re.findall(r"`tms_deferrals_total`.*or without an attempt: (.*)\. \|$", page, re.MULTILINE)
    reasons = set(re.findall(r"`(\w+)`", named))
    assert reasons == {reason.value for reason, how in POSTPONEMENTS.items() if how.text is None}
