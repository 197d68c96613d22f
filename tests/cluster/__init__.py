"""`make cluster`: the service on many hosts and the engines that they need, in network namespaces on one machine.

network   the hosts and what is cut between them
engines   etcd, PostgreSQL with Patroni, Redis with Sentinel, HAProxy, by the files of deploy/cluster
stage     the service on its hosts; relay, gateway, receiver, clients and the checker are those of tests/chaos
faults    each fault with what must be reached
verdict   what was seen, compared with that; pure
round     one fault under load
"""
