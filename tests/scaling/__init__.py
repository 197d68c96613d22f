"""How work grows (docs/development.md#suites).

No statement reads all of a table that grows, no reader takes longer than in proportion to its text, and nothing costs
more calls than the table of docs/cost.md says.
"""
