"""Min-cost flow by ortools."""

import numpy as np

from windrow.errors import MissingDependency, WindrowError
from windrow.offline.graph import Network


def solve(net: Network) -> np.ndarray:
    """The flow of every arc at the largest gain."""
    try:
        from ortools.graph.python.min_cost_flow import SimpleMinCostFlow
    except ImportError as error:
        raise MissingDependency.of("ortools", "the optimum") from error
    if not len(net.tail):
        return np.zeros(0, np.int64)
    flow = SimpleMinCostFlow()
    arcs = flow.add_arcs_with_capacity_and_unit_cost(
        net.tail.astype(np.int32), net.head.astype(np.int32), net.capacity.astype(np.int64), -net.gain
    )
    flow.set_nodes_supplies(np.arange(len(net.supply), dtype=np.int32), net.supply.astype(np.int64))
    status = flow.solve()
    if status != flow.OPTIMAL:
        raise WindrowError(f"the flow of the optimum could not be solved: status {status}")
    return np.asarray(flow.flows(arcs), np.int64)
