"""Messages that are held after a restore: holding them, finding them, releasing and dropping them
(docs/restore.md#what-a-restore-holds)."""
