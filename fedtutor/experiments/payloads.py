"""The shape of a message in words: `[128, 10]`, `x [80 to 320, 3, 28, 28], y [80 to 320]`.

A payload becomes a list of parts (name, shape); those of several messages are put together, with a
range where they differ.
"""

from collections.abc import Sequence

import torch

FEW = 3  # tensors of a payload that are named one by one

Parts = list[tuple[str, tuple | str]]


def in_words(payload) -> Parts:
    """The parts of what was sent: (name, shape of a tensor or a word) for each."""
    parts = list(_leaves("", payload))
    if len(parts) <= FEW:
        return parts
    numbers = sum(torch.Size(shape).numel() for _, shape in parts if isinstance(shape, tuple))
    numbers += sum(isinstance(shape, str) for _, shape in parts)
    return [("", f"{numbers:,} numbers in {len(parts)} tensors")]


def spread(shapes: Sequence[Parts]) -> str:
    """One text for the parts of all messages of a kind."""
    first = shapes[0]
    alike = all([(name, _rank(shape)) for name, shape in parts]
                == [(name, _rank(shape)) for name, shape in first] for parts in shapes)  # fmt: skip
    if not alike:
        return " or ".join(dict.fromkeys(_text(parts) for parts in shapes))
    return _text([(name, [_range({parts[i][1][k] for parts in shapes}) for k in range(len(shape))]
                   if isinstance(shape, tuple) else shape)
                  for i, (name, shape) in enumerate(first)])  # fmt: skip


def _leaves(name: str, payload):
    if isinstance(payload, torch.Tensor) and payload.ndim:
        yield name, tuple(payload.shape)
    elif isinstance(payload, dict):
        for key, part in payload.items():
            yield from _leaves(str(key), part)
    elif isinstance(payload, (list, tuple)):
        for part in payload:
            yield from _leaves(name, part)
    elif payload is not None:
        yield name, "one number"


def _rank(shape) -> int | str:
    return len(shape) if isinstance(shape, tuple) else shape


def _range(sizes: set[int]) -> str:
    low, high = min(sizes), max(sizes)
    return f"{low}" if low == high else f"{low} to {high}"


def _text(parts: Parts) -> str:
    words = []
    for name, shape in parts:
        size = shape if isinstance(shape, str) else f"[{', '.join(map(str, shape))}]"
        words.append(f"{name} {size}".strip())
    return ", ".join(words)
