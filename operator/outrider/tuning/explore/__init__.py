"""Which K is tried in slices of time, and when.

1. `trials`: a trial through the table, for engines that cannot probe: is it measured, is it over.
2. `trying`: whether anything is tried now, how long, and on which pod.
3. `slices`: which K is worth a slice.
"""
