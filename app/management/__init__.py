"""What programs set up by the API, noun by noun (docs/management.md)."""
