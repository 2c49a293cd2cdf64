"""Measurements of other K: which, when and how long.

1. `trials`: a trial through the schedule, for engines that cannot probe.
2. `comparing`: probes of K=0, while a launch without a drafter needs a comparison.
3. `trying`: whether to probe now, how long, and on which pod.
4. `slices`: which K is worth a probe.
5. `turns`: which of several K with equal estimates runs.
"""
