"""Mutation testing of the mathematics: `make mutants` (hours of computing, so not part of CI).

A mutant is the package with one sign, number, comparison or loop changed. Unit tests, or the
checks of the chapters, must notice; a mutant that nobody notices is a test that is missing.

=============  ====================================================================================
``drawing``    where a mutation is possible, and a fair sample of them
``covering``   which tests and chapters execute which line, and how long they take
``trying``     one mutant in a process of its own
``__main__``   the campaign: resumable, its results in benchmarks/results/mutants.json
=============  ====================================================================================
"""
