"""HTTP server: gunicorn's threaded worker, changed so that no client can occupy a thread."""
