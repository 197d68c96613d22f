"""Tests of app/lists."""
