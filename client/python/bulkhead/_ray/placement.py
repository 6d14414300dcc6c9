"""Where a fleet's replicas may run: Ray's resources, and why there is no node that has them."""

from __future__ import annotations

import numbers
from typing import Any, Dict, Mapping, Set

import ray

from ..errors import InvalidArgument

# What Ray gives an actor by arguments of their own.
_ARGUMENTS = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}


def checked(resources: Any) -> Dict[str, float]:
    """Amounts by Ray's names. InvalidArgument for other things."""
    if resources is None:
        return {"CPU": 1}
    if not isinstance(resources, Mapping):
        raise InvalidArgument(f'resources is a dict such as {{"CPU": 4}}, not {resources!r:.60}')
    for name, amount in resources.items():
        if isinstance(amount, bool) or not isinstance(amount, numbers.Real) or amount < 0:
            raise InvalidArgument(f"resources: {name} must be a number, 0 at least, not {amount!r:.60}")
    return {"CPU": 1, **resources}


def options(resources: Mapping[str, float]) -> Dict[str, Any]:
    """The options of an actor or a task that takes these."""
    own = {name: amount for name, amount in resources.items() if name not in _ARGUMENTS}
    taken = {argument: resources[name] for name, argument in _ARGUMENTS.items() if name in resources}
    return {**taken, "resources": own}


def _words(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {amount:g}" for name, amount in sorted(resources.items())) or "nothing"


def lost_nodes() -> Set[str]:
    """The addresses of nodes that Ray knows to be dead, with no other at the same address."""
    nodes = ray.nodes()
    alive = {node["NodeManagerAddress"] for node in nodes if node["Alive"]}
    return {node["NodeManagerAddress"] for node in nodes} - alive


def why_none(resources: Mapping[str, float]) -> str:
    """Why no node has these now, as the end of a sentence."""
    nodes = sorted((node for node in ray.nodes() if node["Alive"]), key=lambda node: node["NodeManagerAddress"])
    wanted = {name: amount for name, amount in resources.items() if amount > 0}
    if any(all(node["Resources"].get(name, 0) >= amount for name, amount in wanted.items()) for node in nodes):
        return f"each takes {_words(wanted)}, and what the nodes have of it is in use: end others, or add nodes"
    has = "; ".join(
        f"{node['NodeManagerAddress']} has {_words({name: node['Resources'].get(name, 0) for name in wanted})}"
        for node in nodes
    )
    return f"each takes {_words(wanted)}, and no node has that ({has}): ask for less (resources=), or add such nodes"
