"""Alert rules, run by Prometheus itself: `make monitoring` (docs/monitoring/alerts.md)."""
