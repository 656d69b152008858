"""Replicas of partitions' state: for what is acquired, for learners and for standbys.

One component (`manager.ReplicaManager`) opens the files of all of them, since LMDB allows one
opening per process: a partition that is acquired goes on from where its learner stood. Knows no
Django, no Spark, no HTTP, and decides nothing about who owns what.
"""
