"""For newcomers: demo data and a receiver of its webhook events."""
