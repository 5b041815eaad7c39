"""What the commands print: progress, rows of checks, forecasts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import click
from tqdm import tqdm

from attnflow.book.chapters.parameters import BookError
from attnflow.book.runs.run import Job, Run
from attnflow.book.runs.sweep import Forecast
from attnflow.claims import Check


class Progress:
    """A progress bar with the time that is left, which names what just finished."""

    def __init__(self, total: int, unit: str) -> None:
        self.bar = tqdm(
            total=total,
            unit=unit,
            bar_format="{l_bar}{bar:24}| {n_fmt}/{total_fmt} {unit} {elapsed}, {remaining} left{postfix}",
        )

    def __enter__(self) -> Callable[[Job, Run | BookError], None]:
        self.bar.refresh()
        return self._note

    def _note(self, job: Job, result: Run | BookError) -> None:
        word = "stopped" if isinstance(result, BookError) else "known" if result.cached else "ran"
        self.bar.set_postfix_str(f"{job.chapter} {word}")
        self.bar.update()

    def __exit__(self, *exc: object) -> None:
        self.bar.close()


def print_forecast(found: Forecast, slots: int | None) -> None:
    """How many runs, how many hours."""
    click.echo(f"{found.runs} runs, {found.known} known before")
    left = found.runs - found.known
    if found.seconds is None:
        click.echo("no run of this chapter is kept, so the time is unknown: run one point first")
        return
    hours = left * found.seconds / 3600
    at_once = slots or os.cpu_count() or 1
    click.echo(
        f"{found.seconds:.1f} s a run: {hours:.2f} hours on one core, {hours / at_once:.2f} on {at_once}"
    )


def print_checks(rows: Iterable[Check]) -> None:
    """One line a check: claim, predicted, measured, verdict."""
    listed = [(row, row.shown()) for row in rows]
    wide = {
        name: max((len(shown[name]) for _, shown in listed), default=0)
        for name in ("claim", "predicted", "measured")
    }
    for row, shown in listed:
        label = "control" if row.is_control else "check  "
        cells = "  ".join(shown[name].ljust(width) for name, width in wide.items())
        verdict = click.style(shown["verdict"], fg="green" if row.sound else "red")
        click.echo(f"{label} {cells}  {verdict}")


def short(path: Path) -> str:
    """A path from here, where that is shorter."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
