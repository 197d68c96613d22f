"""For tests of your own application: a service in memory, and signed requests of webhooks.

    fake = FakeService()
    fake.add_list("Customers", ["First Name"])
    application.client = fake.client()
    ...
    assert fake.sent[0].address == "ann@example.com"

Nothing is sent and nothing waits. What it answers has the form of the service's answers, and it refuses what the
service refuses for the form of a request: unknown ids and attributes, missing destinations, content or groups. It does
not know domains, senders, types of list fields, suppression, access levels and rate limits, and fills in no wildcards.
"""

from transactional_messaging.testing.sent import SentMessage
from transactional_messaging.testing.service import FakeService
from transactional_messaging.testing.signing import sign_batch

__all__ = ["FakeService", "SentMessage", "sign_batch"]
