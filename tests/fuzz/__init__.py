"""Fuzzing of what reads the texts of clients, strangers and operators (docs/security-tests.md#fuzzing)."""
