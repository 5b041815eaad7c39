"""Every example in a docstring of the package prints what it says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import attnflow

ROOT = Path(attnflow.__file__).parent
MODULES = sorted(
    ".".join(["attnflow", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_print_what_they_say(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name), raise_on_error=False)
    assert not failed, capsys.readouterr().out


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    found = [test for name in MODULES for test in finder.find(importlib.import_module(name))]
    assert sum(bool(test.examples) for test in found) >= 60
