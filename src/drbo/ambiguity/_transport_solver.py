"""Compiled kernels of optimal transport: the worst plan within a budget, and the cheapest plan between two marginals.

Both work on relative costs, cost[i, j] in [0, 1] for moving all mass from context i of the reference to context j.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from drbo.validation import FloatArray

ROUNDING_MASS = 1e-15
"""A parcel that sums of float weights cannot tell from nothing; the cheapest plan does not charge for it."""

_STEEPEST = 1e300  # keeps the price of contexts that almost coincide finite


@numba.njit(cache=True, error_model="numpy")
def worst_plans(
    u: FloatArray, p: FloatArray, cost: FloatArray, nearest: NDArray[np.int64], budget: float
) -> tuple[FloatArray, FloatArray]:
    """Return for each row of u (m, n) the weights (m, n) that minimise <w, u> within the budget, and the dual (m,).

    A fractional multiple-choice knapsack, solved greedily. The mass of context i may walk down the lower convex hull
    of the points (cost[i, j], u[j]); each edge of that hull buys a decrease of u at a fixed rate. Edges of all
    contexts are bought steepest first until the budget is spent. The steepness of the last one is the optimal
    multiplier l of the dual  -l budget + sum_i p_i min_j (u_j + l cost_ij).

    nearest (n, n) holds for each context i all contexts in order of cost[i, :].
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
        for edge in range(edges):  # those of one context follow each other down its hull
            if steepness[edge] > multiplier:
                at[edge_from[edge]] = edge_to[edge]
                remaining -= price[edge]
        split = np.zeros(n)  # mass that goes only part of an edge
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


@numba.njit(cache=True, error_model="numpy")
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

    Returns where the mass of i starts (i itself, unless a lower value costs nothing) and the new number of edges.
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


@numba.njit(cache=True, error_model="numpy")
def _multiplier(steepness: FloatArray, price: FloatArray, budget: float) -> float:
    """Return the steepness of the edge on which the budget runs out, zero if it pays for all (Balas and Zemel)."""
    spent = 0.0
    multiplier = 0.0
    while steepness.size > 0:
        pivot = np.median(steepness[:: max(1, steepness.size // 3)][:3])
        above, below = steepness > pivot, steepness < pivot
        price_above = price[above].sum()
        if spent + price_above > budget:
            # Summed in another order, the same edges may still fit: then the budget ends where they do.
            multiplier = pivot
            steepness, price = steepness[above], price[above]
            continue
        spent += price_above + price[steepness == pivot].sum()
        if spent > budget:
            return float(pivot)
        steepness, price = steepness[below], price[below]
    return float(multiplier)


@numba.njit(cache=True, error_model="numpy")
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


@numba.njit(cache=True, error_model="numpy")
def cheapest_plan(supply: FloatArray, demand: FloatArray, cost: FloatArray) -> float:
    """Return the least cost of moving supply (n,) onto demand (n,); cost (n, n) >= 0 with a zero diagonal.

    Successive shortest paths with potentials (Dijkstra on reduced costs), begun from the plan that leaves in place
    what supply and demand share: it is optimal for the mass that it ships, with all potentials zero.
    """
    n = supply.size
    left, need = supply.copy(), demand.copy()
    flow = np.zeros((n, n))
    for i in range(n):
        flow[i, i] = min(left[i], need[i])
        left[i] -= flow[i, i]
        need[i] -= flow[i, i]
    row_price, column_price = np.zeros(n), np.zeros(n)
    row_length, column_length = np.empty(n), np.empty(n)
    row_parent, column_parent = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    row_queue = np.empty(n, dtype=np.int64)
    for source in range(n):
        while left[source] > 0.0:
            if min(left.sum(), need.sum()) <= ROUNDING_MASS:
                return float((flow * cost).sum())
            # Shortest paths from the source, until a column with open demand is settled.
            row_length[:], column_length[:] = -1.0, np.inf
            settled = np.zeros(n, dtype=np.bool_)
            row_length[source], row_parent[source] = 0.0, -1
            row_queue[0] = source
            queued, scanned, sink = 1, 0, -1
            while True:
                while scanned < queued:
                    i = row_queue[scanned]
                    scanned += 1
                    for j in range(n):
                        length = row_length[i] + max(cost[i, j] - row_price[i] - column_price[j], 0.0)
                        if not settled[j] and length < column_length[j]:
                            column_length[j], column_parent[j] = length, i
                sink = -1
                for j in range(n):
                    if not settled[j] and (sink < 0 or column_length[j] < column_length[sink]):
                        sink = j
                settled[sink] = True
                if need[sink] > 0.0:
                    break
                for i in range(n):
                    if flow[i, sink] > 0.0 and row_length[i] < 0.0:
                        row_length[i], row_parent[i] = column_length[sink], sink
                        row_queue[queued] = i
                        queued += 1
            reach = column_length[sink]
            for i in row_queue[:queued]:
                row_price[i] += reach - row_length[i]
            for j in range(n):
                if settled[j]:
                    column_price[j] -= reach - column_length[j]
            # Ship along the path as much as its source, its sink and the flows that it undoes allow.
            amount = min(left[source], need[sink])
            i = column_parent[sink]
            while row_parent[i] >= 0:
                amount = min(amount, flow[i, row_parent[i]])
                i = column_parent[row_parent[i]]
            left[source] -= amount
            need[sink] -= amount
            j = sink
            while j >= 0:
                i = column_parent[j]
                flow[i, j] += amount
                j = row_parent[i]
                if j >= 0:
                    flow[i, j] -= amount
    return float((flow * cost).sum())


@numba.njit(cache=True, error_model="numpy")
def cheapest_plan_on_line(supply: FloatArray, demand: FloatArray, position: FloatArray, order: float) -> float:
    """Return the least cost of moving supply (n,) onto demand (n,) at |x_i - x_j|^order, x = position ascending.

    On a line with a convex cost the monotone plan is optimal: the north-west corner rule.
    """
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
