"""The coordinator's decisions on a group: who is gone, who can own, and the next target.

Pure: a `GroupRead` in, values out; the same view gives the same answer, in whatever order things
were reported (coordination.md section 3, learners.md L5, L8, L9). Remembers nothing.
"""
