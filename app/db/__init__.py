"""Engines, transactions and the tables of both databases."""
