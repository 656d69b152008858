"""Rows of the database as small values for pages; reading only."""
