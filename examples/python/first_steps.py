"""The first twelve tasks with the Python library, in the demo account of `make run`.

pip install ./clients/python
TMS_URL=http://127.0.0.1:8000 TMS_KEY=tms_... python examples/python/first_steps.py
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from transactional_messaging import Attachment, Client, ValidationFailed

client = Client()  # with TMS_KEY and TMS_URL
run = uuid.uuid4().hex[:8]  # so that it can run again

# 1. What may the key do?
scopes = client.root.get().scopes
print("1 the key may send email:", "yes" if "send.email" in scopes else "no")

# 2. Find a list by its name.
(customers,) = client.lists.list(name="Customers")
print(f"2 the list Customers has the id {customers.id}")

# 3. Create a contact. With this key the same request, sent again, creates none.
contact = client.contacts.create(
    customers.id, {"email": f"ann-{run}@example.com", "first_name": "Ann"}, idempotency_key=f"signup-{run}"
)
print(f"3 created {contact.email}")

# 4. Change it.
contact = client.contacts.update(customers.id, contact.id, {"plan": "gold", "double_opt_in": True})
print(f"4 the plan of {contact['first_name']} is {contact['plan']}")

# 5. Read all contacts, ten on each page.
everyone = client.contacts.list(customers.id, fields=["id"], limit=10)
print(f"5 read {len(list(everyone))} of {everyone.count()} contacts")

# 6. Send an email with an attachment.
invoice = Attachment.from_bytes(b"Total: 100 EUR\n", "invoice.txt")
send = client.sends.create(
    type="email",
    list_id=customers.id,
    group_name=f"Invoices {run}",
    subject="Invoice for %%first_name**you%%",
    from_name="Acme",
    from_address="billing@mail.acme.example",
    body_text="Dear %%first_name**customer%%, the invoice is attached.",
    recipients=[{"email": f"ann-{run}@example.com", "attachments": [invoice]}],
    metadata={"invoice": run},
    idempotency_key=f"invoice-{run}",
)
print(f"6 accepted {len(send.uuids)} email")

# 7. Send a stored message to two people, with a value for each.
(welcome,) = client.messages.list(name="Welcome")
greeting = client.sends.create(
    type="email",
    list_id=customers.id,
    message_id=welcome.id,
    group_name=f"Welcome {run}",
    recipients=[
        {"email": f"ben-{run}@example.com", "first_name": "Ben"},
        {"email": f"cleo-{run}@example.com", "first_name": "Cleo"},
    ],
)
print(f"7 accepted {len(greeting.uuids)} emails")

# 8. Send a text message. The code is stored encrypted, and only until the message has left.
text = client.sends.create(
    type="sms",
    group_name=f"Codes {run}",
    unsubscribe_type="none",
    from_address="ACME",
    body_text="Your code is %%code%%.",
    secret_values=["code"],
    recipients=[{"mobile": "61491570006", "code": "482913"}],
)
print(f"8 accepted {len(text.uuids)} text message")

# 9. What became of the email, and of all in its group?
recipient = client.sends.wait(send.uuids[0], timeout=180)
group = client.groups.get(send.group_id)
print(f"9 the email is {recipient.state}; sent {group.sent}, delivered {group.delivered}")

# 10. Understand an error.
try:
    client.sends.create(
        type="email",
        list_id=customers.id,
        message_id=welcome.id,
        group_name=f"Welcome {run}",
        recipients=[{"email": "ann@example.com"}, {"email": "not an address"}],
    )
except ValidationFailed as error:
    print(f"10 refused: {error.code} in {error.collection}[{error.index}].{error.field}")

# 11. Find an email by what your application calls it.
sent = client.sends.list(filters={"metadata.invoice": run})
print(f"11 found {sent.count()} email with the invoice")

# 12. Schedule a reminder for tomorrow, and take it back.
reminder = client.sends.create(
    type="email",
    list_id=customers.id,
    message_id=welcome.id,
    group_name=f"Reminders {run}",
    recipients=[{"email": f"ann-{run}@example.com"}],
    send_at=datetime.now(UTC) + timedelta(days=1),
)
cancelled = client.sends.cancel(reminder.uuids[0])
print(f"12 the reminder is {cancelled.state}: {cancelled.reason}")
