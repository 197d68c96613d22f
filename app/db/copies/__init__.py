"""Copies of whole tables, out of one snapshot and into an empty database (docs/decisions/023-backups-of-rows.md)."""
