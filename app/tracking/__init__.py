"""Open and click tracking, and unsubscribe links: signed tokens that identify a recipient, and the effect of requests
for them."""
