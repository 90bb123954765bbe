"""The JSON fields of each command, as typed records; the JSON Schemas are generated from them.

A module for each command, so that none builds the records of the others. Paths are as given on the
command line or below it; sizes are bytes; digests are SHA-256 in lower-case hexadecimal.
"""
