"""Help: the repository's documents as pages of the dashboard."""
