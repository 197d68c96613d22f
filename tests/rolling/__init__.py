"""`make rolling`: upgrades of the running service under load (docs/upgrade.md).

__main__  the databases, the result and the exit status
service   the processes, as a process manager keeps them, and the code that they run
load      the clients, and what they were answered
upgrade   the steps of an operator
launcher  the same of the service that the launcher has started
"""
