"""Tests of app/contacts."""
