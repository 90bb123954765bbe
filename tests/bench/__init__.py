"""``make bench``: times and memory as ratios against plain tools, measured in the same run.

Machines differ, so the ratios count, not the seconds. Every figure is the best of some runs of a
process of its own, start-up included unless it says otherwise; memory is the peak of the process or
its largest child.
"""
