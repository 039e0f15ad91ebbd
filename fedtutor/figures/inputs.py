"""Input of a figure, checked: each helper returns what can be drawn or raises one clear error."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import DataError


def require(right, what: str, *, where: str, do: str, error=DataError) -> None:
    """Raise `error` (what, where, what to do) unless `right`."""
    if not right:
        raise error(what, where=where, do=do)


def numbers(values, *dims: int, where: str, share: bool = False) -> np.ndarray:
    """`values` as a finite float64 array with one of `dims` dimensions; shares lie in 0..1."""
    try:
        if hasattr(values, "detach"):
            values = values.detach().cpu().double()
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    fits = array.ndim in dims and array.size > 0 and np.isfinite(array).all()
    require(fits, f"values of shape {list(array.shape)}, perhaps with gaps", where=where,
            do=f"give finite numbers with {' or '.join(map(str, dims))} dimension(s)")  # fmt: skip
    if share:
        low, high = array.min(), array.max()
        require(low >= 0 and high <= 1, f"accuracies from {low:g} to {high:g}", where=where,
                do="give shares between 0 and 1, they are shown in percent")  # fmt: skip
    return array


def pair(values, *, where: str, shares: tuple[bool, bool]) -> list[np.ndarray]:
    """Two lists of equal length as arrays; `shares` says which of them hold shares."""
    two = isinstance(values, Sequence | np.ndarray) and len(values) == 2
    require(two, "no pair", where=where, do="give two lists")
    arrays = [numbers(v, 1, where=where, share=s) for v, s in zip(values, shares, strict=True)]
    same(len(arrays[0]), len(arrays[1]), "numbers in the two lists", where=where)
    return arrays


def mapping(values, *, where: str) -> dict:
    """`values` as a dict with at least one entry."""
    require(isinstance(values, Mapping) and values, f"a {type(values).__name__} without names",
            where=where, do="give a dict from name to values with at least one entry")  # fmt: skip
    return dict(values)


def same(found: int, expected: int, what: str, *, where: str) -> None:
    """Refuse two counts that differ; `what` names them."""
    require(found == expected, f"{what}: {found} and {expected}", where=where,
            do="give as many of both")  # fmt: skip


def sample_sd(values: np.ndarray) -> np.ndarray:
    """Sample standard deviation over the first axis; 0 where there is one seed."""
    return values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1:])


def spread_note(note: str, counts, over: str = "seeds") -> str:
    """`note` with `3 seeds` or `2 to 5 seeds` in place of {}; for one seed, that none is known."""
    low, high = min(counts), max(counts)
    if high == 1:
        return f"One {over.removesuffix('s')}: the spread is not known."
    return note.format(f"{low} {over}" if low == high else f"{low} to {high} {over}")
