"""Bulkhead on a Ray cluster.

    import bulkhead.ray

    with bulkhead.ray.Fleet(replicas=4, root="/data", resources={"CPU": 8, "loader": 1}) as fleet:
        TorchTrainer(train, train_loop_config={"target": fleet.target}, ...).fit()

Services run as actors of Ray; `bulkhead.Loader(spec, config["target"])` in a worker reads from all of them.
"""

from __future__ import annotations

import logging
import numbers
import os
import time
import uuid
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Union

try:
    import ray
    import ray.exceptions
    import ray.util.scheduling_strategies
except ModuleNotFoundError as _missing:
    if _missing.name != "ray":
        raise
    raise ModuleNotFoundError(
        "bulkhead.ray needs Ray, which is not installed here: pip install 'ray[train]'", name="ray"
    ) from None

from . import errors
from ._boundary import ends_at_caller, public
from ._loader_arguments import refuse_unknown
from ._ray import placement, shard_tasks
from ._ray.authority import Authority
from ._ray.directory import Directory, News
from ._ray.replica import Replica
from ._ray.target import Target, forget
from ._service import arguments
from ._service.arguments import Folders, Size
from ._spec.spec_input import Spec

__all__ = ["Fleet", "FleetReplica", "index", "pack"]

_log = logging.getLogger("bulkhead")

_WARN_SECONDS = 5.0
_STOP_SECONDS = 30.0


class FleetReplica(NamedTuple):
    """One replica of a Fleet, as it last told of itself."""

    number: int  # a replica that Ray starts again keeps it
    node: str  # its IP address; empty: Ray has not found a node yet
    address: str  # of its service; empty: it does not serve
    version: str  # of its bulkheadd
    error: Optional[errors.BulkheadError]  # why it does not serve


@public
class Fleet:
    """Services on the nodes of a Ray cluster, which make streams together.

        with bulkhead.ray.Fleet(replicas=2, root="/data", resources={"CPU": 4, "loader": 1}) as fleet:
            trainer = TorchTrainer(train, train_loop_config={"target": fleet.target}, ...)

    Each replica is an actor that starts bulkheadd on its node. Ray places it and starts it again when it or its node is
    lost, on any node that has its `resources`; a cluster with an autoscaler gets such a node. A service ends with
    its actor, and the actors end with this object, with `close`, or with the process that made it.

    `replicas` is their number. `root` is the folder, or the folders, that specs may read: every node needs the same data there;
    of images and tars only names and sizes are compared.
    `resources` are those of one replica, by Ray's names: {"CPU": 4, "memory": 8 << 30, "loader": 1}; {"CPU": 1} by default.
    `scheduling_strategy` is Ray's, "SPREAD" by default.

    The other options are those of bulkheadd with these names: `workers` (by default one for each CPU of `resources`),
    `threads`, `cache_dir`, `worker_quota`, `memory_budget` (by default `memory` of `resources`), `block_cache_bytes`,
    `coefficient_cache_bytes`, `worker_hang_timeout`, `sandbox`, `log_level`, `native_path` and `trace_python`. Python stages come from wherever the actor imports
    from, so from the job's `runtime_env`.

    Services listen on their node's address over TLS, with certificates of an authority that is made for this fleet.
    Every process that gets `target` gets a certificate, and may stream, ask for the status and operate.

    Blocks until all replicas serve, `timeout` seconds at most; DeadlineExceeded then says which resources no node has.
    InvalidArgument for impossible arguments, for nodes with different versions of bulkheadd, and where the package cryptography is
    missing; ServiceNotFound where a node has no bulkheadd; ServiceStartFailed with its last words where it does not start.
    Connects to Ray (`ray.init()`) if the program has not.
    """

    def __init__(
        self,
        replicas: int = 1,
        root: Folders = (),
        *,
        resources: Optional[Mapping[str, float]] = None,
        scheduling_strategy: Any = "SPREAD",
        timeout: float = 120.0,
        workers: Optional[int] = None,
        threads: Optional[int] = None,
        cache_dir: Optional[str] = None,
        worker_quota: Optional[Size] = None,
        memory_budget: Optional[Size] = None,
        block_cache_bytes: Optional[Size] = None,
        coefficient_cache_bytes: Optional[Size] = None,
        worker_hang_timeout: Optional[float] = None,
        sandbox: Optional[str] = None,
        log_level: Optional[str] = None,
        native_path: Optional[Folders] = None,
        trace_python: bool = False,
        **unknown: Any,
    ):
        given = dict(locals())  # every argument, by its name
        self._id = uuid.uuid4().hex
        # Replicas find the directory by its name: Ray warns of actors that it cannot start again with a handle as an argument.
        self._name = f"bulkhead-fleet-{self._id}"
        self._directory: Any = None
        self._replicas: Dict[int, Any] = {}  # actors, by number
        self._next = 0
        self._closed = False
        refuse_unknown(type(self), unknown)
        _check_count(replicas)
        self._resources = placement.checked(resources)
        self._strategy = scheduling_strategy
        self._roots = [os.path.abspath(each) for each in ([root] if isinstance(root, (str, os.PathLike)) else root)]
        if workers is None:
            workers = max(int(self._resources["CPU"]), 1)
        if memory_budget is None and self._resources.get("memory"):
            memory_budget = int(self._resources["memory"])
        given.update(workers=workers, memory_budget=memory_budget)
        self._arguments = arguments.checked(**given).absolute()
        authority = Authority()
        if not ray.is_initialized():
            ray.init()
        here = ray.get_runtime_context().get_node_id()
        strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
        actor = ray.remote(Directory).options(
            name=self._name, num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=strategy
        )
        self._directory = actor.remote(authority)
        try:
            self._add(replicas, timeout)
            self._target = Target(self._id, self._directory)
            os.fspath(self._target)
        except BaseException:
            self.close()
            raise

    @property
    def target(self) -> "os.PathLike[str]":
        """What `bulkhead.Loader` and the adapters take as their target, here and in every process of this Ray job.

        The path of a target file, which names the replicas that serve and is kept fresh; `str` and `os.fspath` give it.
        Where it arrives pickled, as in `train_loop_config`, it is the path of a file on that node, which is made when it is
        first used, and lasts as long as the process. That blocks until a replica serves, 60 s at most, and raises
        ServiceUnavailable.
        """
        self._check()
        return self._target

    @property
    def replicas(self) -> List[FleetReplica]:
        """Where each replica is, and why it does not serve. Blocks for an answer of the directory on the driver's node."""
        self._check()
        told, lost = self._told(), placement.lost_nodes()
        return [FleetReplica(number, *_now(told.get(number, News("")), lost)) for number in sorted(self._replicas)]

    def resize(self, replicas: int, timeout: float = 120.0) -> None:
        """Makes it so many. New ones join open streams; of others, which end, streams go on with those that stay.

        Blocks until new ones serve, `timeout` seconds at most, or old ones have ended. Raises as the class does; then the
        fleet is as before.
        """
        self._check()
        _check_count(replicas)
        more = replicas - len(self._replicas)
        if more > 0:
            self._add(more, timeout)
        elif more < 0:
            self._end(sorted(self._replicas)[more:])

    def close(self) -> None:
        """Ends all services. Blocks until they have ended, 30 s at most. Idempotent."""
        if self._closed:
            return
        self._closed = True
        forget(self._id)
        if ray.is_initialized() and self._directory is not None:
            self._end(list(self._replicas))
            ray.kill(self._directory)

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise errors.InvalidArgument("a Fleet stays in the process that made it: give others its `target`")

    def __repr__(self) -> str:
        return f"<Fleet replicas: {'closed' if self._closed else len(self._replicas)}>"

    def _check(self) -> None:
        if self._closed:
            raise errors.LoaderClosed("the fleet is closed")

    def _told(self) -> Dict[int, News]:
        return ray.get(self._directory.news.remote())

    def _add(self, count: int, timeout: float) -> None:
        actor = ray.remote(Replica).options(
            max_restarts=-1, scheduling_strategy=self._strategy, **placement.options(self._resources)
        )
        added: Dict[int, Any] = {}
        for number in range(self._next, self._next + count):
            added[number] = actor.remote(number, self._name, self._roots, self._arguments)
        self._next += count
        self._replicas.update(added)
        try:
            self._wait(added, timeout)
        except BaseException:
            self._end(list(added))
            raise

    def _wait(self, added: Mapping[int, Any], timeout: float) -> None:
        """Until these serve."""
        began = time.monotonic()
        warned = False
        begun = {replica.ready.remote(): number for number, replica in added.items()}
        while True:
            for reference in ray.wait(list(begun), timeout=0)[0] if begun else []:
                number = begun.pop(reference)
                if not _has_begun(number, reference):
                    begun[added[number].ready.remote()] = number
            told = self._told()
            for number in added:
                error = told[number].error if number in told else None
                if error is not None:
                    raise error.again()
            missing = [number for number in added if number not in told]
            if not missing:
                return
            waited = time.monotonic() - began
            placeless = list(begun.values())
            if waited >= timeout:
                raise _late(missing, placeless, self._resources, timeout)
            if placeless and waited >= _WARN_SECONDS and not warned:
                warned = True
                _log.warning("%s wait for nodes: %s", _of(placeless), placement.why_none(self._resources))
            time.sleep(0.1)

    def _end(self, numbers: Sequence[int]) -> None:
        ending = {number: self._replicas.pop(number) for number in numbers}
        begun = ray.get(self._directory.forget.remote(list(ending)))
        stopped = [ending[number].stop.remote() for number in begun]
        if stopped:
            ray.wait(stopped, num_returns=len(stopped), timeout=_STOP_SECONDS)
        for replica in ending.values():
            ray.kill(replica)


def _now(news: News, lost_nodes: Set[str]) -> News:
    """What is so although the replica could not tell it any more."""
    if news.node not in lost_nodes:
        return news
    why = f"the node {news.node} is lost: Ray starts the replica again where there is room"
    return News(news.node, error=errors.ServiceUnavailable(why))


def _check_count(replicas: Any) -> None:
    if isinstance(replicas, bool) or not isinstance(replicas, numbers.Integral) or not 1 <= replicas <= 256:
        raise errors.InvalidArgument(f"replicas is a whole number between 1 and 256, not {replicas!r:.60}")


def _has_begun(number: int, reference: Any) -> bool:
    """Not if it was lost, so that Ray starts it again. ServiceStartFailed if it cannot begin: its node lacks this package."""
    try:
        ray.get(reference)
        return True
    except ray.exceptions.ActorDiedError as error:
        last = str(error).strip().rpartition("\n")[2]
        raise errors.ServiceStartFailed(f"replica {number} of the fleet did not begin: {last}") from None
    except ray.exceptions.RayActorError:
        return False


def _of(numbers_of_replicas: Sequence[int]) -> str:
    text = ", ".join(map(str, numbers_of_replicas))
    return f"replica {text} of the fleet" if len(numbers_of_replicas) == 1 else f"replicas {text} of the fleet"


def _late(missing: Sequence[int], placeless: Sequence[int], resources: Mapping[str, float], timeout: float) -> errors.BulkheadError:
    if placeless:
        return errors.DeadlineExceeded(f"{_of(placeless)}: no node within {timeout:g} s; {placement.why_none(resources)}")
    return errors.DeadlineExceeded(f"{_of(missing)}: the service was not ready within {timeout:g} s; see its node's log")


@ends_at_caller
def pack(
    shards: Sequence[Union[str, "os.PathLike[str]"]],
    out: str,
    *,
    records: int = 1000,
    resources: Optional[Mapping[str, float]] = None,
) -> str:
    """Writes shards as TFRecords, each by `bulkhead pack` in a task of Ray, and returns the path of a spec that reads all.

        spec = bulkhead.ray.pack(glob.glob("/data/*.tar"), "/data/packed")

    A shard is what that command takes: a folder of images, an image list, a tar, a TFRecord file or a spec. Files of the first
    of 16 are in `out`/shard-00000-of-00016, with `records` records in each; the spec reads none that another number of shards has left.
    `out` and the shards are on storage that all nodes share.
    `resources` are those of one task, by Ray's names, {"CPU": 1} by default; CPUs are its threads.

    Blocks until all are written. A task that is lost with its node is begun again by Ray and goes on where it was, and so
    does another call with the same arguments. DataError (SHARD_FAILED) with the command's words for the first shard that cannot be packed, or that
    has other features than the first; ServiceNotFound where a node has no `bulkhead` command.
    """
    return shard_tasks.pack(shards, out, records, resources)


@ends_at_caller
def index(
    spec: Spec, cache_dir: str, *, tasks: int = 8, resources: Optional[Mapping[str, float]] = None
) -> int:
    """Makes the record indexes of a spec's files by `bulkhead index` in tasks of Ray; returns the number of records.

        bulkhead.ray.index("train.yaml", "/shared/cache", tasks=16)

    The files of a `tfrecord` or `tar` source are divided among `tasks`. `cache_dir` is on storage that all nodes share, and the
    one that services get (`Fleet(cache_dir=...)`); they find an index by its file's path, size and time. `resources` are those of one task, by Ray's
    names, {"CPU": 1} by default; CPUs are its workers.

    Blocks until all are made. SpecError for another source; DataError (SHARD_FAILED) with the command's words for the first
    files that cannot be indexed; ServiceNotFound where a node has no `bulkhead` command.
    """
    return shard_tasks.index(spec, cache_dir, tasks, resources)
