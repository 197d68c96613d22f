"""Tests of app.transports."""
