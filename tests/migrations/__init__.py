"""The migrations of the schema, up and down, over both databases (docs/upgrade.md#migrations)."""
