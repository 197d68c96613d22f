"""What every process needs to run, and no rule of the service: logs, metrics, liveness, memory, secrets, wake-ups."""
