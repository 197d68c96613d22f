"""The inbox of the console: what test keys have sent, and what `file://` transports have written, as mails and text
messages with their links and a list of what filters of spam look at (docs/console.md#inbox)."""
