"""Pages that are made of the chapters: their figures, their parameters, what is new in them.

============ ====================================================================================
``pictures`` every figure as a file; a card a chapter; the gallery
``new_here`` the book's own results, one screen each
``overview`` what can be changed in each chapter, and how its claims stand
``numbers``  figures have numbers
``slim``     what a reader does not need is not in the built book
============ ====================================================================================
"""
