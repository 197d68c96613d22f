"""The benchmark: the service beside the least code that does the same work and beside its peers (`make bench`).

A case starts what it measures, runs ours, the floor and the peer in turn for several rounds, and returns rows of the
table. A floor is the least code that does the same work with the same durability; a peer is a common alternative.
Ratios are computed within a round, so that a machine whose speed drifts does not distort them. A wrong answer, an idle
process, or a missing mail or event fails the case.
"""
