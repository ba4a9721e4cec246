# ruff: noqa: ARG001  # an intrinsic's parameters are read by numba, as types
"""Eight numbers at a time: the inner loops of the kernels, written for the processor's vector registers.

LLVM may not reorder a sum, so it leaves a loop of additions as it is, one number after the other. NumPy sums with
eight running sums; said as vectors of eight that is the same sum to the bit, in a third of the time. Where a
processor has shorter registers LLVM takes several for one vector.

Each function reads ``x[low:low + 8 * blocks]`` and trusts its caller that it lies within the array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LANES = 8
_NUMBER = ir.DoubleType()
_VECTOR = ir.VectorType(_NUMBER, LANES)
_INDEX = ir.IntType(32)
_ZEROS = ir.Constant(_VECTOR, [0.0] * LANES)
_PAIR = types.UniTuple(types.float64, 2)  # type: ignore[no-untyped-call]  # numba's types have none


@intrinsic
def _eight_total(_typing: Any, x: Any, low: Any, blocks: Any) -> Any:
    """The sum in NumPy's order: eight running sums, then ``((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7))``."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        (sums,) = _walk(context, builder, signature, given, (_ZEROS,), lambda v, held: [builder.fadd(held[0], v)])
        return _fold(builder, sums, builder.fadd)

    return types.float64(x, types.intp, types.intp), code


@intrinsic
def _eight_extremes(_typing: Any, x: Any, low: Any, blocks: Any) -> Any:
    """The lowest and the highest number."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        def least(a: Any, b: Any) -> Any:
            return builder.select(builder.fcmp_ordered("<", b, a), b, a)

        def most(a: Any, b: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", b, a), b, a)

        infinite = [ir.Constant(_VECTOR, [sign * float("inf")] * LANES) for sign in (1, -1)]
        lows, highs = _walk(
            context, builder, signature, given, infinite, lambda v, held: [least(held[0], v), most(held[1], v)]
        )
        found = [_fold(builder, lows, least), _fold(builder, highs, most)]
        return context.make_tuple(builder, signature.return_type, found)

    return _PAIR(x, types.intp, types.intp), code


@intrinsic
def _eight_line(_typing: Any, x: Any, low: Any, blocks: Any, mean: Any, first: Any) -> Any:
    """Sums of squares of the distance from the mean, and of position times distance; positions count up from first."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        centre = _spread(builder, given[3])
        positions = builder.fadd(_spread(builder, given[4]), ir.Constant(_VECTOR, [float(k) for k in range(LANES)]))
        onward = ir.Constant(_VECTOR, [float(LANES)] * LANES)

        def step(v: Any, held: Sequence[Any]) -> list[Any]:
            squares, shared, position = held
            away = builder.fsub(v, centre)
            return [
                builder.fadd(squares, builder.fmul(away, away)),
                builder.fadd(shared, builder.fmul(position, away)),
                builder.fadd(position, onward),
            ]

        squares, shared, _ = _walk(context, builder, signature, given, (_ZEROS, _ZEROS, positions), step)
        found = [_fold(builder, squares, builder.fadd), _fold(builder, shared, builder.fadd)]
        return context.make_tuple(builder, signature.return_type, found)

    return _PAIR(x, types.intp, types.intp, types.float64, types.float64), code


@intrinsic
def _address(_typing: Any, x: Any, low: Any) -> Any:
    """Where ``x[low]`` lies: a call that is handed an array counts its references, one that is handed this does not."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, given[0]).data
        return builder.ptrtoint(builder.gep(data, [given[1]]), context.get_value_type(types.intp))

    return types.intp(x, types.intp), code


@intrinsic
def _pointer(_typing: Any, place: Any) -> Any:
    """The address as what ``numba.carray`` takes."""

    def code(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return builder.inttoptr(given[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.intp), code


def _walk(
    context: Any,
    builder: Any,
    signature: Any,
    given: Any,
    start: Sequence[Any],
    step: Callable[[Any, Sequence[Any]], Sequence[Any]],
) -> list[Any]:
    """Code of the loop over the blocks: what is held after ``held = step(eight numbers, held)`` on each."""
    data = context.make_array(signature.args[0])(context, builder, given[0]).data
    first = builder.gep(data, [given[1]])
    held = [cgutils.alloca_once_value(builder, value) for value in start]  # type: ignore[no-untyped-call]  # as above
    with cgutils.for_range(builder, given[2]) as loop:
        place = builder.gep(first, [builder.mul(loop.index, ir.Constant(loop.index.type, LANES))])
        numbers = builder.load(builder.bitcast(place, _VECTOR.as_pointer()), align=8)  # as any float64 lies
        for slot, value in zip(held, step(numbers, [builder.load(slot) for slot in held]), strict=True):
            builder.store(value, slot)
    return [builder.load(slot) for slot in held]


def _spread(builder: Any, number: Any) -> Any:
    """The number in every lane."""
    vector = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(_INDEX, 0))
    return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(_INDEX, LANES), [0] * LANES))


def _fold(builder: Any, vector: Any, join: Callable[[Any, Any], Any]) -> Any:
    """One number of eight: neighbours are joined, then their neighbours."""
    left = [builder.extract_element(vector, ir.Constant(_INDEX, lane)) for lane in range(LANES)]
    while len(left) > 1:
        left = [join(left[k], left[k + 1]) for k in range(0, len(left), 2)]
    return left[0]


# numba calls an intrinsic without its first parameter, which types can't say
eight_total: Callable[[Floats, int, int], float] = cast("Any", _eight_total)
eight_extremes: Callable[[Floats, int, int], tuple[float, float]] = cast("Any", _eight_extremes)
eight_line: Callable[[Floats, int, int, float, float], tuple[float, float]] = cast("Any", _eight_line)
address: Callable[[Floats, int], int] = cast("Any", _address)
pointer: Callable[[int], Any] = cast("Any", _pointer)
