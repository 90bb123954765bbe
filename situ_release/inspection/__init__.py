"""What things say about themselves, and what changed between two of them.

``facts`` reads one thing into typed records, ``diff`` compares two, ``pages`` puts either into
words for people. Lies between the wheel and the command line; decides nothing.
"""
