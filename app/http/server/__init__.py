"""How requests come in and answers go out: gunicorn's threaded worker, of which no client can hold a thread."""
