"""Backups, restoring them, and what is held afterwards (docs/backup.md)."""
