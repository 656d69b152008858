"""Client coordination: the agents of a group compute its target themselves (coordination.md 4)."""
