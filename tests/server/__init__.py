"""Tests of the API under gunicorn, over real connections."""
