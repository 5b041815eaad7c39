"""Run a command as if on another processor: ``python tests/processor.py KIND COMMAND ...``.

Other processors add numbers in another order, so the last digits differ. OpenBLAS, numpy and numba
can each be told to use the code of an older kind, which is the next best thing to owning one.

own      the machine's own code
other    a kind that differs from the machine's own: haswell where it has AVX-512, else nehalem
nehalem  SSE only        haswell  AVX2 and FMA        zen  the same, AMD's        skylakex  AVX-512
pair     the machine's own code on two threads
"""

from __future__ import annotations

import os
import subprocess
import sys

#: OpenBLAS' name, the numpy features to keep, numba's name ("": its own choice).
KINDS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "nehalem": ("Nehalem", (), "generic"),
    "haswell": ("Haswell", ("X86_V3",), "haswell"),
    "zen": ("Zen", ("X86_V3",), "znver1"),
    "skylakex": ("SkylakeX", ("X86_V3", "X86_V4"), "skylake-avx512"),
}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_FEATURES = (
    "from numpy._core._multiarray_umath import __cpu_features__ as has, __cpu_dispatch__ as all\n"
    "print(*(name for name in all if has[name]))"
)


def features() -> list[str]:
    """What numpy would use here beyond its baseline."""
    command = [sys.executable, "-c", _FEATURES]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def settings(kind: str) -> dict[str, str]:
    """The environment under which programs take this machine for `kind`."""
    if kind == "own":
        return {}
    if kind == "pair":
        return dict.fromkeys(THREADS, "2")
    here = features()
    if kind == "other":
        kind = "haswell" if "X86_V4" in here else "nehalem"
    if kind not in KINDS:
        raise SystemExit(f"there is no processor {kind!r}: own, other, pair, {', '.join(KINDS)}")
    blas, kept, compiled = KINDS[kind]
    if missing := [name for name in kept if name not in here]:
        raise SystemExit(f"this machine cannot do {kind}: it lacks {' '.join(missing)}")
    dropped = " ".join(name for name in here if name not in kept)
    out = {"OPENBLAS_CORETYPE": blas, "NUMBA_CPU_NAME": compiled}
    return {**out, "NPY_DISABLE_CPU_FEATURES": dropped} if dropped else out


if __name__ == "__main__":
    os.environ.update(settings(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
