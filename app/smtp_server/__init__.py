"""What the listeners for mail have in common: a session within its bounds, a mail while it arrives, and the server with
its sessions (docs/inbound.md#limits)."""
