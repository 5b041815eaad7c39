"""What commands share: their options, and how the runs that they ask for are done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import click

from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Chapter, Project, code
from attnflow.book.runs.keep import Shelf
from attnflow.book.runs.kernels import Runner
from attnflow.book.runs.run import Job, Run, execute_all, local

JOBS = click.option(
    "-j", "--jobs", type=click.IntRange(1), help="Runs at once; one per core unless given."
)
PARAMETER = click.option(
    "-p", "--parameter", "given", multiple=True, metavar="NAME=VALUE", help="May be repeated."
)


def cluster(command: Callable[..., None]) -> Callable[..., None]:
    """The options that send runs to a Dask cluster."""
    at = click.option("--scheduler", metavar="ADDRESS", help="A Dask cluster, as tcp://HOST:PORT.")
    own = click.option("--workers", type=click.IntRange(1), help="A local Dask cluster of so many.")
    return at(own(command))


def finish(
    project: Project, todo: list[Job], runner: Runner, *,
    finished: Callable[[Job, Run | BookError], None] = lambda job, result: None,
    cache: bool = True, strict: bool = False,
) -> list[Run | BookError]:  # fmt: skip
    """All of `todo` with their notebooks, in its order."""
    results: dict[int, Run | BookError] = {}
    with closing(execute_all(project, todo, runner, cache=cache, strict=strict)) as runs:
        for index, result in runs:
            results[index] = result
            finished(todo[index], result)
    return [results[index] for index in range(len(todo))]


def longest_first(project: Project, chapters: Iterable[Chapter]) -> list[Chapter]:
    """By the time that the last run took, else by how much code there is: none ends alone."""
    shelf = Shelf(project.build / "runs")

    def cost(chapter: Chapter) -> tuple[float, int]:
        spent = shelf.seconds(chapter.name)
        return (max(spent, default=0.0), sum(map(len, code(chapter.read()))))

    return sorted(chapters, key=cost, reverse=True)


@contextmanager
def runner_at(jobs: int | None, scheduler: str | None, workers: int | None) -> Iterator[Runner]:
    """Kernels here, or a cluster where one was named or asked for."""
    require_one_place(jobs, scheduler, workers)
    if scheduler is None and workers is None:
        yield local(jobs)
        return
    from attnflow.book.runs.cluster import connect

    with connect(scheduler, workers) as runner:
        yield runner


def require_one_place(jobs: int | None, scheduler: str | None, workers: int | None) -> None:
    """Refuse a call that says twice where runs happen, before anything is written."""
    if sum(option is not None for option in (jobs, scheduler, workers)) > 1:
        raise click.UsageError("one of --jobs, --workers and --scheduler says where runs happen")


def pairs_of(given: Iterable[str]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise click.UsageError(f"a parameter is NAME=VALUE, got {text!r:.80}")
        if name in out:
            raise click.UsageError(f"{name} is given twice")
        out[name] = value
    return out


def split(text: str) -> list[str]:
    """Values at top-level commas: "1,2" -> ["1", "2"], "[1,2],[3]" -> ["[1,2]", "[3]"]."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]
