"""Tests of parts of the server, without a server."""
