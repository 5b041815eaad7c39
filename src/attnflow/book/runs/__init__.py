"""Runs: a key, an executed notebook, its checks.

=========== =========================================================================
``run``     one run or many: known already, or executed under the key's lock and kept
``keep``    finished runs, believed by their digests
``kernels`` here: a thread and a kernel a run, none left behind
``kernel``  a kernel that does not outlive whoever started it
``cluster`` elsewhere: workers of Dask without our disk
``bundle``  what a run needs, as one parcel
``sweep``   a grid of parameters: what is left to do, and how long it takes
``table``   its table, a row a run and check, written as it grows
=========== =========================================================================
"""
