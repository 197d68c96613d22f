"""Backups, restoring them, and what is held afterwards (docs/operations.md#backups)."""
