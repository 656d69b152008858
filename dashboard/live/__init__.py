"""The dashboard's only door to Redis: group state as values, scripts as functions.

Knows nothing of SQL and Django's models. Everything raises StoreUnavailable when Redis cannot be
asked: a page then says unknown, never zero.
"""
