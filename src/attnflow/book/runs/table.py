"""The table of a sweep: one row a run and check, CSV or Parquet, written as it grows.

Runs finish in any order; rows are written in the order of the grid, as far as it is done without
a gap. The file has a name of its own until it is complete, so a table is never half of one, and
two sweeps into the same table do not disturb each other.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from attnflow.book.chapters.parameters import BookError
from attnflow.book.runs.run import Run
from attnflow.files import growing, name_file

Row = dict[str, Any]
#: The columns after the parameters, and their types in Parquet.
COLUMNS = {
    "claim": "string", "case": "string", "control": "bool_", "predicted": "float64",
    "measured": "float64", "tol": "float64", "relation": "string", "verdict": "string",
    "seconds": "float64", "key": "string", "error": "string",
}  # fmt: skip
FORMATS = ("csv", "parquet")
#: Rows that Parquet writes at once.
GROUP = 10_000


def rows(point: Mapping[str, Any], result: Run | BookError) -> list[Row]:
    """The rows of one run; a run that stopped has one row with its error."""
    if isinstance(result, BookError):
        empty = dict.fromkeys(COLUMNS)
        said = str(result).splitlines()[0]
        return [{**point, **empty, "control": False, "verdict": "error", "error": said}]
    return [
        {
            **point,
            "claim": check.id,
            "case": check.case,
            "control": check.is_control,
            "predicted": check.predicted,
            "measured": check.measured,
            "tol": check.tol,
            "relation": check.relation,
            "verdict": check.verdict,
            "seconds": result.seconds,
            "key": result.key,
            "error": "",
        }
        for check in result.checks
    ]


class Table:
    """Writes the rows of runs 0, 1, 2, ... in this order, whichever comes first."""

    def __init__(self, path: Path, parameters: Mapping[str, Sequence[Any]]) -> None:
        """`parameters` has all values of each, which decide the types of the columns."""
        self.path, self.growing = path, growing(path)
        self.written = 0
        self._next, self._early = 0, dict[int, Sequence[Row]]()
        self._columns = [*parameters, *COLUMNS]
        if path.suffix not in [f".{form}" for form in FORMATS]:
            raise BookError(f"a table is a .csv or a .parquet file, got {path.name}")
        self._open = _parquet if path.suffix == ".parquet" else _Csv
        self._parameters = parameters

    def __enter__(self) -> Table:
        self.growing.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._file = self._open(self.growing, self._columns, self._parameters)
        except BaseException as error:
            if isinstance(error, OSError):
                name_file(error, self.path)
            self.growing.unlink(missing_ok=True)
            raise
        return self

    def add(self, index: int, made: Sequence[Row]) -> None:
        """The rows of run `index`."""
        self._early[index] = made
        while self._next in self._early:
            ready = self._early.pop(self._next)
            try:
                self._file.write(ready)
            except OSError as error:
                name_file(error, self.path)
                raise
            self.written += len(ready)
            self._next += 1

    def __exit__(self, kind: Any, *exc: object) -> None:
        try:
            self._file.close()
            if kind is None:
                os.replace(self.growing, self.path)
        except OSError as error:
            name_file(error, self.path)
            raise
        finally:
            with suppress(OSError):
                self.growing.unlink(missing_ok=True)


class _Csv:
    """Comma-separated rows, on the disk after every run."""

    def __init__(
        self, path: Path, columns: list[str], parameters: Mapping[str, Sequence[Any]]
    ) -> None:
        self.file: IO[str] = path.open("w", encoding="utf-8", newline="")
        self.writer = csv.DictWriter(self.file, columns, restval="", lineterminator="\n")
        self.writer.writeheader()

    def write(self, made: Sequence[Row]) -> None:
        self.writer.writerows(made)
        self.file.flush()

    def close(self) -> None:
        self.file.close()


class _Parquet:
    """Groups of rows with the types of the parameters."""

    def __init__(
        self, path: Path, columns: list[str], parameters: Mapping[str, Sequence[Any]]
    ) -> None:
        import pyarrow
        from pyarrow import parquet

        kinds = {name: _kind(values) for name, values in parameters.items()}
        self.as_text = [name for name, values in parameters.items() if _kind(values) == "string"]
        self.schema = pyarrow.schema(
            [(name, getattr(pyarrow, kind)()) for name, kind in {**kinds, **COLUMNS}.items()]
        )
        self.batch = pyarrow.Table.from_pylist
        self.writer = parquet.ParquetWriter(path, self.schema)
        self.waiting: list[Row] = []

    def write(self, made: Sequence[Row]) -> None:
        self.waiting += [{**row, **{n: str(row[n]) for n in self.as_text}} for row in made]
        if len(self.waiting) >= GROUP:
            self._flush()

    def _flush(self) -> None:
        self.writer.write_table(self.batch(self.waiting, schema=self.schema))
        self.waiting = []

    def close(self) -> None:
        self._flush()
        self.writer.close()


def _kind(values: Sequence[Any]) -> str:
    """The type of a column of parameters; lists, and whole numbers too long for it, are text."""
    first = values[0]
    if isinstance(first, bool):
        return "bool_"
    if isinstance(first, int):
        return "int64" if all(-(2**63) <= v < 2**63 for v in values) else "string"
    return "float64" if isinstance(first, float) else "string"


def _parquet(path: Path, columns: list[str], parameters: Mapping[str, Sequence[Any]]) -> _Parquet:
    try:
        return _Parquet(path, columns, parameters)
    except ImportError:
        raise BookError("Parquet needs pyarrow: pip install 'attnflow[parquet]'") from None
