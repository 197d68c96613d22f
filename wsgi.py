"""The WSGI application, for gunicorn and for `flask --app wsgi`."""

from app import create_app

application = create_app()
