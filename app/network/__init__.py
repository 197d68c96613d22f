"""Name lookups and TCP connections with a deadline."""
