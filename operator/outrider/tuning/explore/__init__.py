"""Which K is tried in slices of time, and when.

1. `trials`: a trial through the table, for engines that cannot probe: is it measured, is it over.
2. `comparing`: K=0, while a launch without a drafter waits to be compared.
3. `trying`: whether anything is tried now, how long, and on which pod.
4. `slices`: which K is worth a slice.
5. `turns`: of K that are equal as far as is known, which one runs.
"""
