"""What is refused in words: numbers that are too large, packages that are missing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any


def answer(compute: Callable[[], Any]) -> Any:
    """What `compute` returns, or None where it refuses and says that numbers are too large."""
    try:
        return compute()
    except ValueError as error:
        if "finite" in str(error) or "large" in str(error):
            return None
        raise


def said_without(package: str, module: str) -> str:
    """What the import of `module` says where `package` is not installed."""
    code = f"""
import sys
sys.modules[{package!r}] = None
from attnflow.errors import MissingPackage
try:
    import {module}
except MissingPackage as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout
