"""What waits for name servers, so that no request does (docs/console-contents.md#checks).

`ask` asks for a check, and `run` carries out those that are asked for, in threads of a worker. The database is the only
record of them; a wake-up has no content.
"""
