"""The whole system on one machine as a supervised tree, and the checks that are run on it."""
