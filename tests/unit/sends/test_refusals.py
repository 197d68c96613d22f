"""Which permanent refusals block an address (docs/delivery.md#what-blocks-an-address)."""

from __future__ import annotations

from collections import Counter

from app.inbound.email.report import failure_status
from app.sends.outcomes.refusals import CODES_OF_THE_ADDRESS, blocks_address, refuses_address
from app.sends.outcomes.transitions import Bounce
from app.transports.base import DeliveryResult, Outcome
from app.transports.email.smtp_session import Reply
from tests.support.cases import each
from tests.support.relay_replies import BLOCKS, MEANINGS, PERMANENT, TEMPORARY, RelayReply, relay_replies

ALL = relay_replies()
MEANING_OF = {reply.text: reply.meaning for reply in ALL}


def answered(reply: RelayReply) -> str:
    """What the reply means as a relay's answer to a command."""
    result = Reply.from_wire(reply.code, reply.text[4:].encode()).result()
    if result.outcome is Outcome.DEFERRED:
        return TEMPORARY
    return BLOCKS if Bounce.from_result(result).blocks else PERMANENT


def notified(detail: str, status: str | None = None) -> str:
    """What it means as the diagnostic of a delivery status notification."""
    bounce = Bounce.from_dsn(detail, failure_status(status, detail))
    return TEMPORARY if bounce.is_soft else BLOCKS if bounce.blocks else PERMANENT


def test_every_reply_of_the_table_means_what_it_must() -> None:
    """A reply has one meaning as an answer to a command and as a notification quotes it. A notification quotes it in
    full, or with the status `5.0.0` that many mail servers write for any failure."""
    answers = {reply.text: answered(reply) for reply in ALL if reply.has_code}
    assert answers == {text: MEANING_OF[text] for text in answers}
    permanent = [reply for reply in ALL if reply.meaning != TEMPORARY]
    assert {reply.text: notified(reply.text) for reply in permanent} == {
        reply.text: reply.meaning for reply in permanent
    }
    assert {reply.text: notified(reply.text, "5.0.0") for reply in permanent} == {
        reply.text: reply.meaning for reply in permanent
    }


def test_the_table_has_200_replies_of_40_providers() -> None:
    counts = Counter(reply.meaning for reply in ALL)
    assert set(counts) == set(MEANINGS)
    assert len(MEANING_OF) >= 200, counts
    assert len({reply.provider for reply in ALL}) >= 40


def test_a_relay_that_answers_all_with_one_refusal_of_its_own_blocks_nobody() -> None:
    """The replies of relays and providers to a sender who may not send, whatever else they say."""
    words = ("relay", "Relay", "spf", "SPF", "DMARC", "authenticat", "Authenticat", "policy", "sender is")
    refusals = [reply for reply in ALL if any(word in reply.text for word in words)]
    assert len(refusals) > 40
    assert {reply.text for reply in refusals if reply.meaning == BLOCKS} == {
        "550 5.1.1 <ann@example.com>: Recipient address rejected: User unknown in relay recipient table"
    }


@each("code", sorted(CODES_OF_THE_ADDRESS))
def test_a_code_of_the_mailbox_or_its_domain_blocks_whatever_the_words_say(code: str) -> None:
    assert blocks_address(f"550 {code} refused, ask your relay", code)
    assert blocks_address("", code)


@each("code", ["5.0.0", "5.1.0", "5.1.7", "5.1.8", "5.2.0", "5.2.2", "5.3.4", "5.4.1", "5.5.1", "5.6.0", "5.7.1"])
def test_any_other_code_blocks_nobody_whatever_the_words_say(code: str) -> None:
    assert not blocks_address(f"550 {code} user unknown", code)
    assert not blocks_address(f"550-{code} user unknown", "5.0.0")
    assert not blocks_address(f"550 user unknown (#{code})", "5.0.0")


@each(
    ("reply", "blocks"),
    [
        ("550 <ann@example.com>... User unknown", True),
        ("550 user ann@example.com does not exist", True),
        ("550 Mailbox disabled", True),
        ("554 go away", False),
        ("550 sender verify failed: no such user", False),
        ("550 Your account is disabled", False),
        ("550 no", False),
        ("", False),
    ],
)
def test_without_a_code_the_words_decide(reply: str, blocks: bool) -> None:
    """The reply may be a relay's own, whose status is made up, or that of an unknown server."""
    assert blocks_address(reply, None) is blocks
    assert blocks_address(reply, "5.0.0") is blocks


@each(
    ("reply", "status", "blocks"),
    [
        ("550 user unknown", "5.7.1", False),
        ("550 5.7.1 refused", "5.1.1", False),
        ("550 5.1.1 refused", "5.7.1", False),
        ("550 refused", "5.1.1", True),
        ("host mx.example.com said: 550 5.1.1 User unknown in relay recipient table", "5.0.0", True),
        ("550 Relaying denied", "5.1.1", False),
        ("550-Verification failed for <me@example.com> 550-550 5.1.1 unknown 550 Sender verify failed", "5.0.0", False),
    ],
)
def test_whoever_says_something_else_keeps_the_address_from_being_blocked(
    reply: str, status: str, blocks: bool
) -> None:
    """The reply, the reporter's code, and the words that stand before a quoted reply."""
    assert blocks_address(reply, status) is blocks


def test_only_refusals_refuse_an_address() -> None:
    assert refuses_address(DeliveryResult.refused("550 5.1.1 nobody", "5.1.1"))
    assert not refuses_address(DeliveryResult.refused("550 5.7.1 no", "5.7.1"))
    assert not refuses_address(DeliveryResult.refused("550 5.1.1 nobody", "5.1.1", about_sender=True))
    assert not refuses_address(DeliveryResult.deferred("450 4.1.1 user unknown", "4.1.1"))


@each(
    ("detail", "blocks"),
    [
        ("stat:UNDELIV err:001", True),
        ("the gateway says: not delivered", True),
        ("stat:UNDELIV err:027 unknown subscriber", True),
        ("stat:REJECTD err:008", False),
        ("stat:DELETED err:000", False),
        ("stat:UNKNOWN err:000", False),
        ("stat:EXPIRED err:000", False),
        ("receipt 16: NACK/11", False),
        ("receipt 2: NACK/11", True),
    ],
)
def test_a_receipt_blocks_a_number_unless_the_gateway_refused_the_text(detail: str, blocks: bool) -> None:
    assert Bounce.from_receipt(detail).blocks is blocks
