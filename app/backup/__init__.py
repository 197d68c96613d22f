"""Backups of the whole installation, and restoring them (docs/backup.md)."""
