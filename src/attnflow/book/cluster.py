"""Runs on a Dask cluster whose workers share no disk with the driver.

A chapter travels once as a bundle; the executed notebook comes back, with its key and digest, and
the driver keeps it like a run of its own. What crosses the network is bytes and text, so that only
workers, not the scheduler, need attnflow. A worker whose packages differ is refused and named.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import nbformat

from attnflow import assets
from attnflow.book import bundle
from attnflow.book.chapters import Recipe, recipe
from attnflow.book.keep import CHECKS
from attnflow.book.kernels import Executed, Failure, KernelDied, Kernels, Stopped
from attnflow.book.parameters import BookError
from attnflow.claims import MIME

#: Seconds without a scheduler after which it is taken for gone.
PATIENCE = 15.0


class ClusterError(BookError):
    """The cluster as a whole does not serve; no run can go on."""

    fatal = True


@contextmanager
def connect(scheduler: str | None, workers: int | None) -> Iterator[Cluster]:
    """The cluster at an address, or a local one of so many workers.

    For an address ``tls://...`` the certificates are those of Dask's own configuration.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise ClusterError("a cluster needs Dask: pip install 'attnflow[cluster]'") from None
    local = None
    try:
        if scheduler is None:
            local = LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
            )
        client = Client(local or scheduler, timeout=f"{PATIENCE:.0f}s", set_as_default=False)
    except Exception as error:  # whatever a wrong address makes of itself
        raise ClusterError(f"no scheduler answers at {scheduler}: {error}") from None
    try:
        yield Cluster(client, str(scheduler or local.scheduler_address))  # type: ignore[union-attr]
    finally:
        with suppress(Exception):
            client.close(timeout=2)
        if local is not None:
            with suppress(Exception):
                local.close(timeout=5)


class Cluster:
    """A runner on the workers of a Dask client."""

    def __init__(self, client: Any, address: str) -> None:
        self.client, self.address = client, address
        self.versions = bundle.versions()
        self.refused: dict[str, str] = {}  #: address of a worker -> why
        self._bundles: dict[str, Any] = {}
        self._guard = threading.Lock()
        self._stopped = False
        threads = sum(w["nthreads"] for w in self._workers().values())
        self._slots = max(2 * threads, 2)

    @property
    def slots(self) -> int:
        """Twice the workers' threads: each has a next run waiting when one is done."""
        return self._slots

    def stop(self) -> None:
        """Give up what is under way; workers finish or drop it by themselves."""
        self._stopped = True

    def run(self, recipe: Recipe, parameters: Mapping[str, Any], what: str) -> Executed:
        """Execute a chapter on a worker, and believe the answer only if key and digest agree."""
        key = recipe.key(parameters)
        supplies: dict[str, Any] = {}
        while True:
            task = [self._sent(recipe), dict(parameters), what, key, self.versions, supplies]
            answer = self._answer(task, recipe.chapter.name)
            if "refused" in answer:
                self._refuse(answer["worker"], answer["refused"])
                continue
            if "died" in answer:
                raise KernelDied(f"on {answer['worker']}: {answer['died']}")
            done = _believed(answer, key)
            wanted = _missing_asset(done.failure)
            if wanted is None or wanted in supplies or not assets.available(wanted):
                return done
            supplies[wanted] = self.client.scatter(assets.read(wanted), hash=True)

    def _sent(self, recipe: Recipe) -> Any:
        """The bundle of a chapter, on the cluster; Dask moves it to each worker once."""
        with self._guard:
            name = recipe.chapter.name
            if name not in self._bundles:
                packed = bundle.pack(recipe)
                self._bundles[name] = self.client.scatter(tuple(packed), hash=True)
            return self._bundles[name]

    def _workers(self) -> dict[str, Any]:
        with suppress(Exception):
            return dict(self.client.scheduler_info(n_workers=-1)["workers"])
        return {}

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
        if not fit:
            said = "\n".join(f"  {worker}: {why}" for worker, why in self.refused.items())
            raise ClusterError(f"no worker of {self.address} is fit for these runs:\n{said}")
        return fit

    def _answer(self, task: list[Any], name: str) -> dict[str, Any]:
        """The word of a worker; a worker that dies is Dask's to replace, a scheduler is not."""
        allowed = self._allowed()
        future = self.client.submit(work, *task, pure=False, retries=1, workers=allowed)
        lost = time.monotonic()
        while True:
            if self._stopped:
                future.cancel()
                raise Stopped
            try:
                answer: dict[str, Any] = future.result(timeout=1)
                return answer
            except TimeoutError:
                if future.done():  # the answer itself is a time-out
                    raise KernelDied("a time-out on the worker") from None
            except (CancelledError, asyncio.CancelledError):
                self._lose()
            except Exception as error:
                self._explain(error, name)
            if self.client.status == "running":
                lost = time.monotonic()
            elif time.monotonic() - lost > PATIENCE:
                self._lose()
            if allowed is not None and not set(allowed) & set(self._workers()):
                future.cancel()
                allowed = self._allowed()
                future = self.client.submit(work, *task, pure=False, retries=1, workers=allowed)

    def _lose(self) -> None:
        if self._stopped:
            raise Stopped
        raise ClusterError(
            f"the scheduler at {self.address} is gone; what was finished is kept: the same command, "
            "with a scheduler that answers, goes on from there"
        )

    def _explain(self, error: Exception, name: str) -> None:
        kind = type(error).__name__
        if kind == "KilledWorker":
            raise BookError(f"{name}: workers died under it again and again ({error})") from None
        if isinstance(error, ImportError):
            raise ClusterError(
                f"a worker cannot import what runs chapters ({error}): install "
                "'attnflow[book,cluster]' there"
            ) from None
        if kind in ("CommClosedError", "FutureCancelledError", "StreamClosedError"):
            self._lose()
        raise KernelDied(f"{kind}: {error}") from None


def work(
    parcel: tuple[str, bytes], parameters: dict[str, Any], what: str, key: str,
    versions: dict[str, str], supplies: dict[str, dict[str, bytes]],
) -> dict[str, Any]:  # fmt: skip
    """On a worker: one run, as text. Plain types in and out."""
    from distributed import get_worker

    worker = get_worker()
    here = {"worker": worker.address}
    if differing := bundle.differences(versions):
        return {**here, "refused": f"its packages differ: {bundle.to_text(differing)}"}
    try:
        folder = Path(worker.local_directory) / "attnflow"
        project = bundle.unpack(bundle.Bundle(*parcel), folder)
        (name,) = (path.stem for path in project.book.glob("*.ipynb"))
        prepared = recipe(project, name)
        if (found := prepared.key(parameters)) != key:
            return {**here, "refused": f"the run {key} has the key {found} there"}
        for asset, files in supplies.items():
            assets.supply(asset, files)
        done = Kernels(1).run(prepared, parameters, what)
    except KernelDied as error:
        return {**here, "died": str(error)}
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
