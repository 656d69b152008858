"""State of a partition on local disk, its snapshots, and how a replica is brought up to date.

Used by the agent (restoring, learners) and by the consumer's driver (merging). The changelog in
Redis is the truth; every replica here can be thrown away (pipeline.md section 4). Knows nothing of
Spark, Redis clients or the dashboard.
"""
