"""The command line: ``attnflow list | run | sweep | pair | store | claims | book | ...``.

============ =====================================================================
``cli``      the commands
``asked``    what they share: options, and how the runs that they ask for are done
``terminal`` what they print: progress, rows of checks, forecasts
============ =====================================================================
"""
