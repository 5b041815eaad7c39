"""What the pages say beyond the text of the chapters: directives and transforms of Sphinx.

============== =================================================================
``reading``    what many pages ask of the files of the book, read once
``tables``     directives that write MyST and let Sphinx read it
``sphinxext``  errata, and what the book needs of Sphinx beyond Jupyter Book
``strips``     the evidence of a statement under it; code that tests is folded
``badges``     where a statement is from, beside its title
``statements`` all boxes by chapter, with source and verdict
``ledger``     all claims, a line that opens each
``new_here``   the book's own results, one screen each
``overview``   what can be changed in each chapter, and how its claims stand
``forms``      a form for every chapter
``pictures``   every figure as a file; a card a chapter; the gallery
``numbers``    figures have numbers
``surveyed``   how much of its tolerance each claim uses over many runs
``mutations``  how many random changes of the mathematics are noticed
``charts``     results of the benchmarks, drawn
``labs``       laboratories, and what is said where no script runs
``api``        the reference: every public name with formula, source and example
``layers``     what stands on what
============== =================================================================
"""
