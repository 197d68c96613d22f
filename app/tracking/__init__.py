"""Open and click tracking, and unsubscribe links: signed tokens that name a recipient, and what a request for one
does."""
