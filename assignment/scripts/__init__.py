"""Arguments and answers of every script in assignment/lua: no caller builds or reads them itself.

For a script `name`: `name_args(...)` gives its ARGV (KEYS is always `[GroupKeys(group).meta]`), and
`name_answer(raw)` turns what Redis answered (bytes or text, RESP2 shapes) into values. Pure.
"""
