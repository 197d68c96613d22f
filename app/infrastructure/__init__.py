"""Infrastructure of every process, without rules of the service: logs, metrics, liveness, memory, secrets, wake-ups."""
