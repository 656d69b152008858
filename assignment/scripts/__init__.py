"""Every script of assignment/lua: no caller builds its arguments or reads its answers itself.

A function of the script's name gives a Call: its ARGV (KEYS is always `[GroupKeys(group).meta]`),
and what turns Redis' answer (bytes or text, RESP2 shapes) into values. Pure.
"""
