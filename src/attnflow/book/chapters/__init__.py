"""What a chapter is, before anything runs.

============== ==================================================================================
``project``    the checkout and its chapters; the key of a run
``parameters`` typed, documented, with the values they allow; errors of the machinery
``pairs``      text and notebook are one chapter: which of them counts
``myst``       cells as text
``notebooks``  parameters in, machine's traces out, outputs over the chapter; checks from outputs
``reach``      which modules of the package a chapter reaches
``compare``    does an output say again what is stored?
============== ==================================================================================
"""
