"""Messages that are held after a restore: holding them, finding them, releasing and dropping them
(docs/operations.md#what-a-restore-holds)."""
