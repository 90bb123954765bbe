"""A bounded fuzz run over everything that reads files: ``make fuzz``.

Every reader gets mutated inputs for its share of the time. It must answer or raise an error of the
tree (:mod:`situ_release.errors`) whose problems are complete, soon, and within the memory limit.
"""
