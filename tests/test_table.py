"""The table of a sweep: rows in order, digits and types kept, and never half of one."""

from __future__ import annotations

import csv
import errno
import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from toys import toy_results, toy_rows

from attnflow.book.chapters.parameters import BookError
from attnflow.book.runs.table import COLUMNS, GROUP, Row, Table, rows

VALUES: dict[str, list[Any]] = {"n": [1, 2, 3], "kind": ["a, b"]}


def write(path: Path, values: Mapping[str, Sequence[Any]] = VALUES, order: str = "012") -> None:
    """The toy runs, told in some order."""
    told = [rows(point, result) for point, result in toy_results()]
    with Table(path, values) as table:
        for index in map(int, order):
            table.add(index, told[index])


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_row_is_one_check_of_one_run() -> None:
    made = toy_rows()
    assert len(made) == 5
    assert made[2] == {
        "n": 2,
        "kind": "a, b",
        "claim": "toy.law",
        "case": "one",
        "control": False,
        "predicted": 1 / 3,
        "measured": 0.2,
        "tol": 0.4,
        "relation": "==",
        "verdict": "holds",
        "seconds": 1.5,
        "key": "0123",
        "error": "",
    }
    assert [(row["n"], row["verdict"]) for row in made] == [
        (1, "holds"),
        (1, "fails"),
        (2, "holds"),
        (2, "fails"),
        (3, "error"),
    ]
    assert made[4]["error"] == "toy, code cell 2: ValueError: no"


def test_csv_keeps_every_row_and_digit(tmp_path: Path) -> None:
    made = toy_rows()
    path = tmp_path / "deep" / "toy.csv"
    write(path)
    back = read(path)
    assert len(back) == len(made)
    for row, found in zip(made, back, strict=True):
        assert found == {name: "" if row[name] is None else str(row[name]) for name in found}
    assert list(back[0]) == ["n", "kind", *COLUMNS]
    assert [float(found["predicted"]) for found in back[:4]] == [1 / 3, math.inf, 1 / 3, math.inf]
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("order", ["012", "021", "102", "120", "201", "210"])
def test_rows_stand_in_the_order_of_the_grid_whichever_run_ends_first(
    tmp_path: Path, order: str
) -> None:
    write(tmp_path / "toy.csv", order=order)
    assert [row["n"] for row in read(tmp_path / "toy.csv")] == ["1", "1", "2", "2", "3"]


def test_the_table_can_be_read_as_far_as_it_is_done_without_a_gap(tmp_path: Path) -> None:
    told = [rows(point, result) for point, result in toy_results()]
    path = tmp_path / "toy.csv"
    with Table(path, VALUES) as table:
        table.add(1, told[1])
        assert read(table.growing) == []
        table.add(0, told[0])
        assert [row["n"] for row in read(table.growing)] == ["1", "1", "2", "2"]
        assert table.written == 4
        assert not path.exists()
    assert list(tmp_path.iterdir()) == [path]


def test_parquet_keeps_types_and_gaps(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "deep" / "toy.parquet"
    write(path, order="201")
    back = parquet.read_table(path).to_pylist()
    assert back == [{name: row.get(name) for name in back[0]} for row in toy_rows()]


def test_parquet_columns_have_one_type_however_the_values_look(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    values = {"whole": [1, 2**70], "part": [0.5, 2.0], "flag": [True], "list": [[1, 2]]}
    with Table(tmp_path / "toy.parquet", values) as table:
        for index in range(2):
            point = {name: options[index % len(options)] for name, options in values.items()}
            table.add(index, rows(point, BookError("no")))
    found = parquet.read_table(tmp_path / "toy.parquet")
    types = {field.name: str(field.type) for field in found.schema}
    assert [types[name] for name in values] == ["string", "double", "bool", "string"]
    assert found.column("whole").to_pylist() == ["1", str(2**70)]


def test_parquet_of_many_rows_is_written_in_groups(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    runs = GROUP // 2 + 2
    (_, result), *_ = toy_results()
    with Table(tmp_path / "toy.parquet", {"n": list(range(runs))}) as table:
        for index in range(runs):
            table.add(index, rows({"n": index}, result))
    file = parquet.ParquetFile(tmp_path / "toy.parquet")
    assert file.metadata.num_row_groups == 2
    assert file.read().column("n").to_pylist() == [k // 2 for k in range(2 * runs)]


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BookError, match=r"attnflow\[parquet\]"):
        write(tmp_path / "toy.parquet")
    assert list(tmp_path.iterdir()) == []


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BookError, match=r"a \.csv or a \.parquet file, got toy\.xls"):
        write(tmp_path / "toy.xls")


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_table_that_is_not_finished_leaves_the_old_one_and_nothing_half(
    tmp_path: Path, form: str, error: type[BaseException]
) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / f"toy.{form}"
    path.write_bytes(b"old")

    def broken() -> None:
        with Table(path, VALUES) as table:
            table.add(0, toy_rows()[:2])
            raise error

    with pytest.raises(error):
        broken()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_full_disk_leaves_the_old_table_and_nothing_half(tmp_path: Path, form: str) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / f"toy.{form}"
    path.write_bytes(b"old")
    table = Table(path, VALUES)
    table.growing.symlink_to("/dev/full")
    with pytest.raises(OSError) as caught, table:
        table.add(0, toy_rows()[:2])
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_leftover_of_a_killed_process_goes_and_that_of_a_running_one_stays(
    tmp_path: Path,
) -> None:
    path = tmp_path / "toy.csv"
    mine = Table(path, VALUES).growing
    dead = mine.with_name(mine.name.replace(str(os.getpid()), "999999999"))
    running = mine.with_name(mine.name.replace(str(os.getpid()), str(os.getppid())))
    elsewhere = mine.with_name("toy.growing-another-machine-999999999.csv")
    for leftover in (dead, running, elsewhere):
        leftover.write_text("half", encoding="utf-8")
    write(path)
    assert set(tmp_path.iterdir()) == {path, running, elsewhere}


def test_a_row_of_a_run_that_stopped_says_so_in_one_line() -> None:
    (row,) = rows({"n": 1}, BookError("first line\nsecond line"))
    expected: Row = {**dict.fromkeys(COLUMNS), "n": 1, "control": False, "verdict": "error"}
    assert row == {**expected, "error": "first line"}
