"""Runs on a Dask cluster whose workers share no disk with the driver.

A chapter travels once as a bundle; the executed notebook comes back, with its key and digest, and
the driver keeps it like a run of its own. Only bytes, text and one line of code cross the network,
so that workers, not the scheduler, need attnflow. A worker whose packages differ is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import nbformat

from attnflow import assets
from attnflow.book.chapters.parameters import BookError
from attnflow.book.chapters.project import Recipe, recipe
from attnflow.book.runs import bundle
from attnflow.book.runs.keep import CHECKS
from attnflow.book.runs.kernels import Executed, Failure, KernelDied, Kernels, Stopped
from attnflow.claims import MIME

#: Seconds without a scheduler after which it is taken for gone.
PATIENCE = 15.0
#: How often a run is sent anew because a worker, or what it held, was lost.
LOSSES = 10
_PAUSE = 1.0  #: seconds between two looks at what is under way


class ClusterError(BookError):
    """The cluster as a whole does not serve; no run can go on."""

    fatal, code = True, 1


@contextmanager
def connected(scheduler: str | None, workers: int | None) -> Iterator[Any]:
    """A Dask client of the scheduler at an address, or of a local cluster of so many workers.

    For an address ``tls://...`` the certificates are those of Dask's own configuration.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise ClusterError("a cluster needs Dask: pip install 'attnflow[cluster]'") from None

    class Quiet(Client):
        """One that failed to begin ends without a traceback, and soon."""

        def __del__(self) -> None:
            with suppress(Exception):
                self.close(timeout=1)

    for name in list(logging.root.manager.loggerDict):
        if name.split(".")[0] == "distributed":  # its tracebacks; what matters is said below
            logging.getLogger(name).setLevel(logging.CRITICAL)
    local = None
    try:
        if scheduler is None:
            local = LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
            )
        client = Quiet(local or scheduler, timeout=f"{PATIENCE:.0f}s", set_as_default=False)
    except Exception as error:  # whatever a wrong address makes of itself
        if local is not None:
            local.close()
        raise ClusterError(f"no scheduler answers at {scheduler}: {error}") from None
    try:
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=2)
        if local is not None:
            with suppress(Exception):
                local.close(timeout=5)


@contextmanager
def connect(scheduler: str | None, workers: int | None) -> Iterator[Cluster]:
    """A runner on the cluster at an address, or on a local one of so many workers."""
    with connected(scheduler, workers) as client:
        yield Cluster(client)


class Cluster:
    """A runner on the workers of a Dask client."""

    def __init__(self, client: Any) -> None:
        """Waits for the first worker, however long a queue it stands in."""
        self.client, self.address = client, str(client.scheduler.address)
        self.versions = bundle.versions()
        self.refused: dict[str, str] = {}  #: address of a worker -> why
        self._bundles: dict[str, Any] = {}
        self._lacking: dict[str, set[str]] = {}  #: chapter -> assets that workers could not fetch
        self._supplies: dict[str, Any] = {}
        self._guard = threading.Lock()
        self._stopped = False
        self._seen: tuple[float, dict[str, int]] = (-math.inf, {})
        if not self._workers():
            print(f"attnflow: {self.address} has no worker yet; waiting for one", file=sys.stderr)
        while not self._workers():
            self._reachable()
            time.sleep(_PAUSE)
        self._slots = 2 * sum(self._workers().values())

    @property
    def slots(self) -> int:
        """Twice the workers' threads: each has a next run waiting when one is done."""
        return self._slots

    def stop(self) -> None:
        """Give up what is under way; the workers end its kernels."""
        self._stopped = True

    def run(self, recipe: Recipe, parameters: Mapping[str, Any], what: str) -> Executed:
        """Execute a chapter on a worker, and believe the answer only if key and digest agree."""
        key, name = recipe.key(parameters), recipe.chapter.name
        task = (dict(parameters), what, key, self.versions)
        while True:
            sent = self._lacking.get(name, set()).copy()
            answer = self._answer(recipe, task, sent)
            if "refused" in answer:
                self._refuse(answer["worker"], answer["refused"])
                continue
            if "died" in answer:
                raise KernelDied(f"on {answer['worker']}: {answer['died']}")
            done = _believed(answer, key)
            wanted = _missing_asset(done.failure)
            if wanted is None or wanted in sent or not assets.available(wanted):
                return done
            with self._guard:
                self._lacking.setdefault(name, set()).add(wanted)

    def _sent(self, recipe: Recipe, lacking: set[str]) -> tuple[Any, dict[str, Any]]:
        """The bundle of a chapter and assets, on the cluster; Dask moves them to a worker once."""
        with self._guard:
            basis = recipe.key({})
            if basis not in self._bundles:
                packed = tuple(bundle.pack(recipe))
                self._bundles[basis] = self.client.scatter(packed, hash=True)
            for asset in lacking - set(self._supplies):
                self._supplies[asset] = self.client.scatter(assets.read(asset), hash=True)
            return self._bundles[basis], {asset: self._supplies[asset] for asset in lacking}

    def _forget(self) -> None:
        """What was sent may be lost with a worker, or with a scheduler that was started anew."""
        with self._guard:
            self._bundles, self._supplies = {}, {}

    def _workers(self, now: bool = False) -> dict[str, int]:
        """The threads of every worker, as they were at most a second ago."""
        asked, found = self._seen
        if now or time.monotonic() - asked > _PAUSE:
            with suppress(Exception):
                found = dict(self.client.nthreads())
            self._seen = (time.monotonic(), found)
        return found

    def _refuse(self, worker: str, why: str) -> None:
        with self._guard:
            if worker not in self.refused:
                self.refused[worker] = why
                print(f"attnflow: the worker {worker} is refused: {why}", file=sys.stderr)

    def _allowed(self) -> list[str] | None:
        """The workers that may be used, or None for any."""
        if not self.refused:
            return None
        fit = [worker for worker in self._workers() if worker not in self.refused]
        if not fit:  # unless one came this very second
            fit = [worker for worker in self._workers(now=True) if worker not in self.refused]
        if not fit:
            said = "\n".join(f"  {worker}: {why}" for worker, why in self.refused.items())
            raise ClusterError(f"no worker of {self.address} is fit for these runs:\n{said}")
        return fit

    def _answer(self, recipe: Recipe, task: tuple[Any, ...], lacking: set[str]) -> dict[str, Any]:
        """The word of a worker. One that dies is replaced by another, with all that it held."""
        for _ in range(LOSSES):
            self._reachable()
            allowed = self._allowed()
            try:
                parcel, supplies = self._sent(recipe, lacking)
                future = self.client.submit(
                    _there, parcel, *task, supplies, pure=False, retries=1, workers=allowed
                )
                if self._settled(future, allowed):
                    answer: dict[str, Any] = future.result(timeout=PATIENCE)
                    return answer
            except (CancelledError, asyncio.CancelledError, OSError):
                self._forget()
            except (BookError, Stopped):
                raise
            except Exception as error:
                self._explain(error, recipe.chapter.name)
        raise BookError(f"{recipe.chapter.name}: {LOSSES} workers were lost under it")

    def _settled(self, future: Any, allowed: list[str] | None) -> bool:
        """Wait for an answer; False if the workers that might give it are all gone."""
        settled = threading.Event()
        future.add_done_callback(lambda _: settled.set())
        while not settled.wait(_PAUSE):
            if self._stopped:
                future.cancel()
                raise Stopped
            if allowed is not None and not set(allowed) & set(self._workers()):
                future.cancel()
                return False
        return True

    def _reachable(self) -> None:
        """Wait for a scheduler that is away, but not for ever."""
        since = time.monotonic()
        while self.client.status != "running":
            if self._stopped:
                raise Stopped
            if self.client.status == "closed" or time.monotonic() - since > PATIENCE:
                raise ClusterError(
                    f"the scheduler at {self.address} is gone; what was finished is kept: the same "
                    "command, with a scheduler that answers, goes on from there"
                )
            time.sleep(0.1)
        if self._stopped:
            raise Stopped

    def _explain(self, error: Exception, name: str) -> None:
        kind = type(error).__name__
        if kind == "KilledWorker":
            raise BookError(f"{name}: workers died under it again and again ({error})") from None
        raise KernelDied(f"{kind}: {error}") from None


def work(
    parcel: tuple[str, bytes], parameters: dict[str, Any], what: str, key: str,
    versions: dict[str, str], supplies: dict[str, dict[str, bytes]],
) -> dict[str, Any]:  # fmt: skip
    """On a worker: one run, as text. Plain types in and out."""
    from distributed import get_worker

    worker = get_worker()
    here = {"worker": worker.address}
    if differing := _differing(tuple(versions.items()), int(time.monotonic() // 60)):
        return {**here, "refused": f"its packages differ: {differing}"}
    try:
        folder = Path(worker.local_directory) / "attnflow"
        project = bundle.unpack(bundle.Bundle(*parcel), folder)
        (name,) = (path.stem for path in project.book.glob("*.ipynb"))
        prepared = recipe(project, name)
        if (found := prepared.key(parameters)) != key:
            return {**here, "refused": f"the run {key} has the key {found} there"}
        for asset, files in supplies.items():
            assets.supply(asset, files)
        runner = Kernels(1)
        with _wanted(worker, runner):
            done = runner.run(prepared, parameters, what)
    except KernelDied as error:
        return {**here, "died": str(error)}
    except Stopped:
        return {**here, "died": "nobody waits for it any more"}
    except (BookError, assets.AssetError) as error:
        return {**here, "refused": str(error)}
    except OSError as error:  # its disk
        return {**here, "refused": f"{error.strerror or error}"}
    slim = what == CHECKS and done.failure is None
    notebook = _checks_alone(done.notebook) if slim else done.notebook
    text, digest = bundle.dumped(notebook)
    failure = None if done.failure is None else tuple(done.failure)
    return {
        **here, "key": found, "digest": digest, "notebook": text, "failure": failure,
        "seconds": done.seconds,
    }  # fmt: skip


def _there(*given: Any) -> Any:
    """On a worker: :func:`work`, if it is there."""
    try:
        from attnflow.book.runs.cluster import work
    except ImportError as error:
        from distributed import get_worker

        why = (
            f"it cannot import what runs chapters ({error}): install 'attnflow[book,cluster]' there"
        )
        return {"worker": get_worker().address, "refused": why}
    return work(*given)


# Dask's scheduler reads the functions that it passes on. Functions of a main program travel as
# code, not as the name of a module, which need not be installed there.
_there.__module__ = "__main__"


@lru_cache(2)
def _differing(versions: tuple[tuple[str, str], ...], minute: int) -> str:
    """Where the packages differ, asked once a minute: it takes a tenth of a second."""
    return bundle.to_text(bundle.differences(dict(versions)))


@contextmanager
def _wanted(worker: Any, runner: Kernels) -> Iterator[None]:
    """Stop the kernel of a run that the driver has given up, which Dask by itself lets finish."""
    task, finished = worker.get_current_task(), threading.Event()

    def watch() -> None:
        while not finished.wait(_PAUSE):
            known = worker.state.tasks.get(task)
            if known is None or known.state not in ("executing", "long-running"):
                runner.stop()
                return

    watcher = threading.Thread(target=watch, name="attnflow-wanted", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()


def _checks_alone(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """What a sweep wants of a notebook, a few kB of it."""
    for cell in notebook.cells:
        cell.source = ""
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if MIME in o.get("data", {})]
            for output in cell.outputs:
                output["data"] = {MIME: output["data"][MIME]}
    notebook.cells = [c for c in notebook.cells if c.cell_type == "code"]
    return notebook


def _believed(answer: dict[str, Any], key: str) -> Executed:
    text = str(answer["notebook"])
    if answer["key"] != key or hashlib.sha256(text.encode()).hexdigest() != answer["digest"]:
        raise KernelDied(f"the answer of {answer['worker']} is not what it says it is")
    notebook = nbformat.from_dict(json.loads(text))
    failure = answer["failure"]
    return Executed(notebook, float(answer["seconds"]), Failure(*failure) if failure else None)


def _missing_asset(failure: Failure | None) -> str | None:
    """The asset that a worker could not get, if that is what stopped the run."""
    if failure is None or failure.ename != "AssetError":
        return None
    found = re.match(r"asset ([\w-]+):", failure.evalue)
    return found[1] if found and found[1] in assets.ASSETS else None
