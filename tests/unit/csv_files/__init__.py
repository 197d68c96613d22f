"""Tests of app/csv_files."""
