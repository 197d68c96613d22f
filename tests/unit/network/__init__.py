"""Tests of app/network."""
