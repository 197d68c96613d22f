"""The inbox of a test account: the messages that were captured instead of sent (docs/testing.md#inbox)."""
