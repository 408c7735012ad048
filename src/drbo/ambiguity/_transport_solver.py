"""Compiled kernels of optimal transport: the worst plan within a budget, and the cheapest plan between two marginals.

Both work on relative costs, cost[i, j] in [0, 1] for moving all mass from context i of the reference to context j.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drbo._compiled import in_order
from drbo.validation import FloatArray

ROUNDING_MASS = 1e-15
"""Mass below the rounding error of sums of weights; the cheapest plan does not charge for it."""

_STEEPEST = 1e300  # keeps the price finite for contexts that almost coincide
_UNITS = 2.0**60
"""Number of parcels of the total mass in the network simplex."""
_FICTITIOUS = 2.0
_WORTH = 1e-14
"""An arc enters the tree if it is cheaper by more than this; prices are rounded sums of costs."""
_BLOCK = 2000
"""Approximate number of arcs per block; the best one enters."""
_PIVOTS = 10_000
"""Largest number of pivots per node. A few suffice; the limit stops cycles caused by rounding."""


@in_order
def worst_plans(
    u: FloatArray, p: FloatArray, cost: FloatArray, nearest: NDArray[np.int64], budget: float
) -> tuple[FloatArray, FloatArray]:
    """Return for each row of u (m, n) the weights (m, n) that minimise <w, u> within the budget, and duals (m,).

    A fractional multiple-choice knapsack, solved greedily. The mass of context i moves down the lower convex hull of
    the points (cost[i, j], u[j]); each edge decreases u at a fixed rate. Edges of all contexts are bought steepest
    first until the budget is spent. The steepness of the last one is the optimal multiplier l of the dual -l budget +
    sum_i p_i min_j (u_j + l cost_ij).

    nearest (n, n) holds for each context i all contexts sorted by cost[i, :].
    """
    m, n = u.shape
    cost_to = np.ascontiguousarray(cost.T)
    sources = np.flatnonzero(p)
    weights = np.zeros((m, n))
    dual = np.empty(m)
    steepness = np.empty(sources.size * n)
    price = np.empty(sources.size * n)
    edge_from = np.empty(sources.size * n, dtype=np.int64)
    edge_to = np.empty(sources.size * n, dtype=np.int64)
    at = np.empty(n, dtype=np.int64)
    for row in range(m):
        edges = 0
        for i in sources:
            first = edges
            at[i], edges = _hull(i, u[row], cost[i], nearest[i], steepness, price, edge_to, edges)
            edge_from[first:edges] = i
            price[first:edges] *= p[i]
        multiplier = _multiplier(steepness[:edges], price[:edges], budget)
        remaining = budget
        for edge in range(edges):  # the edges of one context are in order down its hull
            if steepness[edge] > multiplier:
                at[edge_from[edge]] = edge_to[edge]
                remaining -= price[edge]
        split = np.zeros(n)  # mass that moves only part of an edge
        for edge in range(edges):
            if steepness[edge] == multiplier:
                i, j = edge_from[edge], edge_to[edge]
                if price[edge] <= remaining:
                    at[i] = j
                    remaining -= price[edge]
                else:
                    split[i] = p[i] * (max(remaining, 0.0) / price[edge])
                    weights[row, j] += split[i]
                    remaining = 0.0
        for i in sources:
            weights[row, at[i]] += p[i] - split[i]
        dual[row] = _dual(multiplier, u[row], p, cost_to, budget)
    return weights, dual


@in_order
def _hull(
    i: np.intp,
    value: FloatArray,
    cost: FloatArray,
    nearest: NDArray[np.int64],
    steepness: FloatArray,
    rise: FloatArray,
    edge_to: NDArray[np.int64],
    edges: int,
) -> tuple[np.intp, int]:
    """Append the edges of the lower convex hull of (cost_j, value_j) from context i on (Andrew's monotone chain).

    Returns the start of the mass of i (i itself, unless a lower value is free) and the new number of edges.
    """
    start, first = i, edges
    last = start
    for j in nearest:
        if value[last] == 0.0:
            break
        if value[j] >= value[last]:
            continue
        while True:
            step = cost[j] - cost[last]
            steep = min((value[last] - value[j]) / step, _STEEPEST) if step > 0.0 else np.inf
            if edges == first or steep < steepness[edges - 1]:
                break
            edges -= 1
            last = edge_to[edges - 1] if edges > first else start
        if step > 0.0:
            steepness[edges], rise[edges], edge_to[edges] = steep, step, j
            edges += 1
        else:
            start = j
        last = j
    return start, edges


@in_order
def _multiplier(steepness: FloatArray, price: FloatArray, budget: float) -> float:
    """Return the steepness of the edge where the budget ends, zero if the budget covers all (Balas and Zemel)."""
    spent = 0.0
    multiplier = 0.0
    while steepness.size > 0:
        pivot = np.median(steepness[:: max(1, steepness.size // 3)][:3])
        above, below = steepness > pivot, steepness < pivot
        price_above = price[above].sum()
        if spent + price_above > budget:
            # Summed in another order, the same edges may still fit: then the budget ends with them.
            multiplier = pivot
            steepness, price = steepness[above], price[above]
            continue
        spent += price_above + price[steepness == pivot].sum()
        if spent > budget:
            return float(pivot)
        steepness, price = steepness[below], price[below]
    return float(multiplier)


@in_order
def _dual(multiplier: float, value: FloatArray, p: FloatArray, cost_to: FloatArray, budget: float) -> float:
    """Return -l budget + sum_i p_i min_j (value_j + l cost_ij) at l = multiplier, over all pairs."""
    if multiplier == 0.0:  # the budget may be infinite
        return float(p.sum() * value.min())
    n = value.size
    lowest = np.full(n, np.inf)
    for j in range(n):
        for i in range(n):
            lowest[i] = min(lowest[i], value[j] + multiplier * cost_to[j, i])
    return float(p @ lowest - multiplier * budget)


@in_order
def cheapest_plan(supply: FloatArray, demand: FloatArray, cost: FloatArray, metric: bool = False) -> float:
    """Return the least cost of moving supply (n,) onto demand (n,); cost (n, n) from 0 to 1 with a zero diagonal.

    If the cost is a `metric`, mass that supply and demand share stays in place, which is optimal.

    A network simplex. Sources and sinks are the nodes of a tree, whose arcs carry the plan. The tree gives prices. An
    arc cheaper than its price enters the tree, and the arc that its flow empties leaves. Flows are integers, and every
    empty arc of the tree points to the root (Cunningham's strongly feasible trees), so no tree repeats and the search
    ends. Artificial arcs to and from the root, with a total cost of 2, carry the flow that the first tree does not
    ship. As real arcs cost at most 1, no artificial arc remains.
    """
    left, need = _parcels(supply), _parcels(demand)
    n = supply.size
    shared = np.minimum(left, need)
    if metric:
        left, need = left - shared, need - shared
    sources, sinks = np.flatnonzero(left), np.flatnonzero(need)
    m, k = sources.size, sinks.size
    if m == 0 or k == 0:
        return 0.0
    c = np.empty((m, k))
    for i in range(m):
        for j in range(k):
            c[i, j] = cost[sources[i], sinks[j]]
    root = m + k
    parent = np.full(root + 1, root)
    flow = np.zeros(root + 1, dtype=np.int64)  # of the arc between a node and its parent
    price = np.zeros(root + 1)
    depth = np.ones(root + 1, dtype=np.int64)
    parent[root], depth[root] = -1, 0
    flow[:m], flow[m:root] = left[sources], need[sinks]
    price[m:root] = _FICTITIOUS
    if not metric:  # the first plan leaves shared mass in place
        place = np.full(n, -1)
        place[sinks] = m + np.arange(k)
        for i in range(m):
            j = place[sources[i]]
            if j < 0:
                continue
            amount = shared[sources[i]]
            flow[i] -= amount
            flow[j] -= amount
            if flow[j] > 0:
                parent[i], flow[i], depth[i], price[i] = j, amount, 2, _FICTITIOUS
            else:
                parent[j], flow[j], depth[j], price[j] = i, amount, 2, 0.0
    child, after, before = np.full(root + 1, -1), np.full(root + 1, -1), np.full(root + 1, -1)
    for v in range(root):
        _hang(v, parent[v], child, after, before)
    stack = np.empty(root + 1, dtype=np.int64)
    row, in_vain = 0, 0
    block = max(_BLOCK // k, 1)
    for _ in range(_PIVOTS * (root + 1)):
        # The cheapest arc of a block of rows enters; if none is cheap enough, the next block is searched.
        best, enter, to = -_WORTH, -1, -1
        while in_vain < m:
            for _ in range(min(block, m - in_vain)):
                offset = price[row]
                for j in range(k):
                    reduced = c[row, j] + offset - price[m + j]
                    if reduced < best:
                        best, enter, to = reduced, row, m + j
                row = row + 1 if row + 1 < m else 0
                in_vain += 1
            if enter >= 0:
                break
        if enter < 0:
            total = 0.0
            for v in range(root):
                if parent[v] != root and flow[v] > ROUNDING_MASS * _UNITS:
                    total += flow[v] / _UNITS * (c[v, parent[v] - m] if v < m else c[parent[v], v - m])
            return total
        in_vain = 0
        # Flow goes round the cycle from the join down to `enter`, over to `to`, and back up. The last arc emptied on
        # the way leaves.
        a, b = enter, to
        amount, leave, on_first = np.int64(2**62), -1, True
        while a != b:
            if depth[a] >= depth[b]:
                if a < m and flow[a] < amount:
                    amount, leave, on_first = flow[a], a, True
                a = parent[a]
            else:
                b = parent[b]
        join = a
        b = to
        while b != join:
            if b >= m and flow[b] <= amount:
                amount, leave, on_first = flow[b], b, False
            b = parent[b]
        a, b = enter, to
        while a != join:
            flow[a] += -amount if a < m else amount
            a = parent[a]
        while b != join:
            flow[b] += -amount if b >= m else amount
            b = parent[b]
        # The part of the tree below the leaving arc is attached to the other end of the entering arc.
        v, above = (enter, to) if on_first else (to, enter)
        carried = amount
        while True:
            old, was = parent[v], flow[v]
            _cut(v, old, child, after, before)
            parent[v], flow[v] = above, carried
            _hang(v, above, child, after, before)
            if v == leave:
                break
            v, above, carried = old, v, was
        stack[0], height = (enter if on_first else to), 1
        while height > 0:
            height -= 1
            v = stack[height]
            up = parent[v]
            depth[v] = depth[up] + 1
            if v < m:
                price[v] = price[up] - (0.0 if up == root else c[v, up - m])
            else:
                price[v] = price[up] + (_FICTITIOUS if up == root else c[up, v - m])
            below = child[v]
            while below >= 0:
                stack[height] = below
                height += 1
                below = after[below]
    raise RuntimeError("the cheapest plan was not found within the limit of steps")


@in_order
def _parcels(weights: FloatArray) -> NDArray[np.int64]:
    """Return weights (n,) as integers with sum 2^60; the largest absorbs the rounding."""
    parcels: NDArray[np.int64] = np.rint(weights / weights.sum() * _UNITS).astype(np.int64)
    parcels[np.argmax(weights)] += np.int64(_UNITS) - parcels.sum()
    return parcels


@in_order
def _hang(v: int, above: int, child: NDArray[np.int64], after: NDArray[np.int64], before: NDArray[np.int64]) -> None:
    """Make v the first child of the node `above`."""
    first = child[above]
    child[above], after[v], before[v] = v, first, -1
    if first >= 0:
        before[first] = v


@in_order
def _cut(v: int, above: int, child: NDArray[np.int64], after: NDArray[np.int64], before: NDArray[np.int64]) -> None:
    """Remove v from the children of the node `above`."""
    if before[v] >= 0:
        after[before[v]] = after[v]
    else:
        child[above] = after[v]
    if after[v] >= 0:
        before[after[v]] = before[v]


@in_order
def cheapest_plan_on_line(supply: FloatArray, demand: FloatArray, position: FloatArray, order: float) -> float:
    """Return the least cost of moving supply (n,) onto demand (n,) at |x_i - x_j|^order: the monotone plan."""
    total = 0.0
    i, j = 0, 0
    left, need = supply[0], demand[0]
    while True:
        amount = min(left, need)
        if amount > ROUNDING_MASS:
            total += amount * abs(position[i] - position[j]) ** order
        left -= amount
        need -= amount
        if left == 0.0:
            i += 1
            if i == supply.size:
                return total
            left = supply[i]
        if need == 0.0:
            j += 1
            if j == demand.size:
                return total
            need = demand[j]


@in_order
def cheapest_plans_on_line(supply: FloatArray, demand: FloatArray, position: FloatArray, order: float) -> FloatArray:
    """Return `cheapest_plan_on_line` (k,) for each row of supply (k, n) and demand (k, n)."""
    found = np.empty(len(supply))
    for row in range(len(supply)):
        found[row] = cheapest_plan_on_line(supply[row], demand[row], position, order)
    return found
