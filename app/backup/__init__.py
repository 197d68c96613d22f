"""Backups of the whole installation, and restoring them (docs/operations.md#backups)."""
