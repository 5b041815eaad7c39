"""The machinery around the book: the only part of attnflow that knows notebooks.

============ ==================================================================================
``chapters`` what a chapter is: text and notebook, parameters, modules that it reaches, key
``runs``     what executes: kernels here or on a cluster, what is kept, sweeps and their tables
``render``   from executed chapters to HTML and PDF
``pages``    what the pages say: evidence beside statements, ledger, figures, the reference
``serve``    the built book with a form in every chapter
``commands`` the command line
============ ==================================================================================

The command starts in ``entry``, and pytest loads the plugin ``nbval``: pyproject.toml names both.
"""
