"""``attnflow serve``: the built book on this machine, and reruns of its chapters from the page.

========== =======================================================================================
``desk``   runs that were asked for: one queue with a limit, progress, cancelling, what came of them
``guard``  who may ask: this machine only, this page only, and with the token of this server
``site``   pages and answers
``server`` uvicorn, on the loopback
========== =======================================================================================
"""
