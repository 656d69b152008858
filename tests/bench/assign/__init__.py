"""What the core of `sticky` costs: `python3 manage.py bench_assign`; README.md says how and why."""
