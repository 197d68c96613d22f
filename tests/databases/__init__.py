"""What works on all accounts at once, over databases of its own: sweeps, retention, forgetting a person, the seals of
the audit log."""
