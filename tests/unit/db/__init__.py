"""Tests of app/db."""
