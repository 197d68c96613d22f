"""Tests of the server's parts without a server."""
