"""The benchmark: the real service against its physical limit and against a peer, in turns (`make bench`).

A case starts what it measures, runs ours, the floor and the peer one after the other (A B C A B C …) for several
rounds, and gives rows of the table. Floors are the least code that does the same work with the same durability; peers
are common alternatives. Ratios are taken within a round, so that a machine whose speed drifts does
not matter. A wrong answer, an idle process, a missing mail or event fails the case.
"""
