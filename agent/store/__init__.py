"""The agent's and its consumer's only door to Redis (nothing else of `agent` imports redis).

`GroupStore` and `EventStore` run the scripts of assignment/lua and read what they wrote. They
decide nothing and know no clock.
"""
