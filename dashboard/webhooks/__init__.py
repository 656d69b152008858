"""Tells addresses outside what needs attention: signed, within bounds, each delivery on record."""
