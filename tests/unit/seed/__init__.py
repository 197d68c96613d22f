"""Tests of app/seed."""
