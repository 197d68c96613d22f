"""The fault suite: `make chaos` breaks the real service on purpose, under load, and checks its guarantees.

registry.py  what a fault is, and the table of all of them
faults.py    faults of processes, databases and the other sides
faults_of_clocks.py, faults_of_operators.py
             a clock that is set, and what operators do while the service runs
hooks.py     what no fault can cause from outside: changes of a module in all processes
stage.py     the environment of a round: a database, the service, a relay and webhook receivers
load.py      clients of several accounts: sends, changes of contacts, retries with the same key
relay.py     the mail server, a separate process that records every transaction
gateway.py   the gateway of the texts, and
receiver.py  the receiver of all webhooks, also separate processes
record.py    what clients, relay, gateway and receiver have recorded
facts.py     the contents of the database and the data folder once all work is done
limits.py    what a fault may cause
check.py     the guarantees, checked against record and facts; pure
table.py     one row per fault
broken/      builds that are broken on purpose; the checker must detect each of them
"""
