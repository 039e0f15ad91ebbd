"""The check cell: what the library computes, beside a plain-loop transcription of the equation."""

import numpy as np
import torch

from ..errors import FedtutorError, SettingError


class CheckError(FedtutorError, AssertionError):
    """Two values that should agree and do not."""


def check(name: str, ours, reference, *, tolerance: float = 1e-6, without: str = "") -> None:
    """Compare `ours` with `reference` and print one line: *equal* or *within 1e-6*.

    Numbers, texts, tensors, arrays, and lists and dicts of them (a state dict, say), in the same
    structure; nested lists of numbers count as arrays. Whole numbers, true or false, and texts
    must be equal; other numbers must satisfy |ours - reference| <= tolerance * max(1, |reference|),
    and with `tolerance=0` be equal to the last bit. The line says what was asked for, not by how
    much it was met, so it is the same on every machine. `without`: entries of a dict whose names
    end so are left out, such as a weight that a later layer takes out again: its gradient is noise.

    Raises `CheckError` where values, shapes or structures differ, where a value is not a number,
    and where the check could not fail: nothing to compare, or a reference below the tolerance.
    """
    if not 0 <= tolerance < 1:
        raise SettingError(
            f"tolerance = {tolerance!r}", where=f"check {name!r}", do="give a number from 0 to 1"
        )
    ours, reference = (_less(value, without) for value in (ours, reference))
    pairs = list(_pairs(_plain(ours, name), _plain(reference, name), "", name))
    if not sum(a.size for _, a, _ in pairs):
        raise _failed(name, "there is nothing to compare")
    inexact = [(a, b) for _, a, b in pairs if "f" in (a.dtype.kind, b.dtype.kind)]
    largest = max((np.abs(b).max() for _, b in inexact if b.size), default=0)
    if 0 < largest <= tolerance:
        raise _failed(
            name, f"the reference is at most {largest:.3g}: any small number would pass",
            do="give a smaller tolerance, or 0.0 as the reference of what must vanish",
        )  # fmt: skip
    for place, a, b in pairs:
        _compare(name, place, a, b, tolerance)
    shown = f"within {tolerance:g}".replace("e-0", "e-") if inexact and tolerance else "equal"
    print(f"{name:<32} {shown}")


def _less(value, without: str):
    """A dict without the entries whose names end so; all else as it is."""
    if not without or not isinstance(value, dict):
        return value
    return {key: part for key, part in value.items() if not key.endswith(without)}


def _plain(value, name: str):
    """Arrays where possible; dicts stay dicts, lists that are not rectangular stay lists."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        return _plain((value.double() if value.is_floating_point() else value).numpy(), name)
    if isinstance(value, dict):
        return {key: _plain(part, name) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [_plain(part, name) for part in value]
        shapes = {part.shape if isinstance(part, np.ndarray) else None for part in parts}
        return np.stack(parts) if len(shapes) == 1 and None not in shapes else parts
    array = np.asarray(value)
    if array.dtype.kind not in "biufU":
        raise SettingError(
            f"a {type(value).__name__} cannot be compared", where=f"check {name!r}",
            do="give numbers, texts, tensors, arrays, or lists and dicts of them",
        )  # fmt: skip
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _pairs(a, b, place: str, name: str):
    """(place, array, array) for every leaf of two equal structures."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        for key in a:
            yield from _pairs(a[key], b[key], f"{place}[{key!r}]", name)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, parts in enumerate(zip(a, b, strict=True)):
            yield from _pairs(*parts, f"{place}[{i}]", name)
    elif (
        isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.shape == b.shape
        and (a.dtype.kind == "U") == (b.dtype.kind == "U")
    ):  # fmt: skip
        yield place, a, b
    else:
        raise _failed(name, f"ours{place} is {_form(a)}, reference{place} is {_form(b)}")


def _compare(name: str, place: str, a: np.ndarray, b: np.ndarray, tolerance: float) -> None:
    right, distance, extent = a == b, np.zeros(a.shape), ""
    if a.dtype.kind != "U":
        with np.errstate(invalid="ignore", over="ignore"):  # infinities and NaN are looked at below
            distance = np.where(right, 0.0, np.abs(a.astype(np.float64) - b.astype(np.float64)))
    if "f" in (a.dtype.kind, b.dtype.kind):
        near = distance <= tolerance * np.maximum(1, np.abs(np.where(np.isfinite(b), b, 0)))
        right = right | near
    if np.all(right):
        return
    order = np.where(right, -1.0, distance)  # argmax takes NaN for the largest
    at = np.unravel_index(order.argmax(), order.shape)
    where = place + (str([int(i) for i in at]) if at else "")
    if a.dtype.kind != "U":
        extent = f"\n  the largest difference, {distance[at]:.3g}, is there; "
        extent += f"{np.sum(~right)} of {a.size} values are wrong"
    raise _failed(
        name, f"ours{where} = {a[at].item()!r}, reference{where} = {b[at].item()!r}{extent}"
    )


def _form(value) -> str:
    if isinstance(value, np.ndarray):
        kind = "text" if value.dtype.kind == "U" else "number"
        return f"an array of {kind}s of shape {list(value.shape)}" if value.shape else f"a {kind}"
    if isinstance(value, dict):
        return f"a dict with keys {sorted(map(str, value))}"
    return f"a list of {len(value)} parts"


def _failed(name: str, what: str, do: str = "compare the code with the equation, term by term"):
    return CheckError(f"check {name!r} failed: {what}", where=name, do=do)
