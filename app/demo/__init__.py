"""What a newcomer sees first: demo data and a receiver of its webhook events."""
