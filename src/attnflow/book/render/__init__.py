"""From executed chapters to what is read.

============= =========================================================
``html``      the notebooks staged beside the pages, and Sphinx on them
``pdf``       the built book as one PDF
``typeset``   the mathematics in the words of a row
``together``  a formula stays on one line with the comma after it
``lean``      drawings and code without what a reader cannot see
``slim``      what a reader does not need is not in the built book
``citations`` how citations become text is looked up once
``cores``     pages are written by as many processes as there are cores
============= =========================================================
"""
