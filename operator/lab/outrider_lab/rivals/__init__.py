"""What turns windows into tables: Outrider's law, and the rules that it is compared with.

`tuners` is the interface, `contenders` all of them by name.
"""
