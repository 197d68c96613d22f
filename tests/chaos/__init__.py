"""The faults as a suite: `make chaos` breaks the real service on purpose, under load, and holds it to its promises.

faults.py    what is broken, each fault by its name
stage.py     what a round stands on: a database, the service, a relay and receivers of webhooks
load.py      clients of several accounts: sends, changes of contacts, retries with the same key
relay.py     the mail server, a process of its own that notes every transaction
receiver.py  the receiver of all webhooks, likewise
record.py    what clients, relay and receiver have noted
facts.py     what the database and the data folder say once all has come to rest
check.py     the promises, held against record and facts; pure
table.py     one row per fault
broken/      builds that are broken on purpose, each of which the checker must find
"""
