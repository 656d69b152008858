"""The API for people's programs: /api/v1, described by its OpenAPI document. It reads and does what
pages do, by the same queries and actions; it decides nothing of its own.
"""
