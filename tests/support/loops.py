"""Plain loops beside the losses, the authors' numbers, and what compares them."""

import math
from pathlib import Path

import numpy as np
import torch

GOLDEN = Path(__file__).parents[1] / "golden"


SEEDS = range(3)


def golden(name: str) -> dict[str, torch.Tensor]:
    with np.load(GOLDEN / f"{name}.npz") as file:
        return {key: torch.from_numpy(np.asarray(file[key])) for key in file}


def logits(*shape, seed: int, scale: float = 2.0) -> torch.Tensor:
    own = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, generator=own, dtype=torch.float64)


def labels(count: int, classes: int, *, seed: int) -> torch.Tensor:
    return torch.randint(0, classes, (count,), generator=torch.Generator().manual_seed(seed))


def close(value, expected, tolerance: float = 1e-12) -> None:
    value = torch.as_tensor(value, dtype=torch.float64)
    expected = torch.as_tensor(expected, dtype=torch.float64)
    assert torch.allclose(value, expected, rtol=tolerance, atol=tolerance), (value, expected)


def gradient(function, z: torch.Tensor) -> torch.Tensor:
    z = z.clone().requires_grad_()
    function(z).backward()
    return z.grad


def softmax_loop(row: list[float]) -> list[float]:
    powers = [math.exp(v - max(row)) for v in row]
    return [p / sum(powers) for p in powers]


def kl_loop(teacher: torch.Tensor, student: torch.Tensor, tau: float = 1.0) -> float:
    total = 0.0
    for b in range(len(student)):
        p = softmax_loop([float(v) / tau for v in teacher[b]])
        q = softmax_loop([float(v) / tau for v in student[b]])
        for u in range(len(p)):
            total += p[u] * math.log(p[u] / q[u])
    return total / len(student)


def cross_entropy_loop(z: torch.Tensor, y: torch.Tensor) -> float:
    rows = [softmax_loop(row.tolist()) for row in z]
    return -sum(math.log(rows[b][int(y[b])]) for b in range(len(z))) / len(z)


def soft_cross_entropy_loop(student, teacher, tau: float, mask=None) -> float:
    """-(1/B) sum_b M[b] tau^2 sum_c q_teacher[b, c] log q[b, c]."""
    total = 0.0
    for b in range(len(student)):
        p = softmax_loop([float(v) / tau for v in teacher[b]])
        q = softmax_loop([float(v) / tau for v in student[b]])
        kept = 1.0 if mask is None else float(mask[b])
        for c in range(len(p)):
            total -= kept * tau**2 * p[c] * math.log(q[c])
    return total / len(student)


def cosine_loop(a, b) -> float:
    top = left = right = 0.0
    for i in range(len(a)):
        top += float(a[i]) * float(b[i])
        left += float(a[i]) ** 2
        right += float(b[i]) ** 2
    return top / math.sqrt(left) / math.sqrt(right) if left and right else 0.0


def prototypes_loop(v, y, classes: int) -> list[list[float]]:
    rows = []
    for c in range(classes):
        own = [v[i].tolist() for i in range(len(v)) if int(y[i]) == c]
        rows.append([sum(column) / len(own) for column in zip(*own, strict=True)]
                    if own else [0.0] * v.shape[1])  # fmt: skip
    return rows


def dot(a, b) -> float:
    return sum(float(a[i]) * float(b[i]) for i in range(len(a)))


def unit(h: torch.Tensor) -> list[list[float]]:
    rows = h.tolist()
    return [[v / math.sqrt(dot(row, row)) for v in row] for row in rows]


def contrast_loop(h, y, tau: float) -> list[float]:
    """Eq. 4, anchor by anchor; indices j, p, a as in the paper."""
    values = []
    for j in range(len(h)):
        positives = [p for p in range(len(h)) if p != j and int(y[p]) == int(y[j])]
        below = sum(math.exp(dot(h[j], h[a]) / tau) for a in range(len(h)) if a != j)
        total = 0.0
        for p in positives:
            total += math.log(math.exp(dot(h[j], h[p]) / tau) / below)
        values.append(-total / len(positives) if positives else 0.0)
    return values


def matching_loop(h, y, g, y_virtual, classes: int) -> float:
    total = 0.0
    for c in range(classes):
        own = [row for row, label in zip(h.tolist(), y.tolist(), strict=True) if label == c]
        other = [row for row, k in zip(g.tolist(), y_virtual.tolist(), strict=True) if k == c]
        if own and other:
            for i in range(len(own[0])):
                mean = sum(row[i] for row in own) / len(own)
                total += (mean - sum(row[i] for row in other) / len(other)) ** 2
    return total


def distance_loop(g, g_other, *, single: bool, small: float = 0.0) -> float:
    """Eq. 6; `single`: one-dimensional tensors count as one row."""
    total = 0.0
    for s, t in zip(g, g_other, strict=True):
        if s.ndim == 1 and not single:
            continue
        rows_s, rows_t = (v[None] if v.ndim == 1 else v.flatten(1) for v in (s, t))
        for a, b in zip(rows_s.tolist(), rows_t.tolist(), strict=True):
            lengths = math.sqrt(dot(a, a)) * math.sqrt(dot(b, b)) + small
            total += 1 - dot(a, b) / lengths
    return total


def kernel_loop(a, b, s: float) -> float:
    apart = [u - v for u, v in zip(a, b, strict=True)]
    return sum(math.exp(-dot(apart, apart) / (s * 2**i)) for i in (-2, -1, 0, 1, 2))


def mmd_loop(h, g) -> float:
    h, g = h.tolist(), g.tolist()
    rows, squares = h + g, []
    for i in range(len(rows)):
        for j in range(len(rows)):
            apart = [u - v for u, v in zip(rows[i], rows[j], strict=True)]
            squares += [dot(apart, apart)] if i != j else []
    s = sum(squares) / len(squares)

    def mean(left, right):
        values = [kernel_loop(a, b, s) for a in left for b in right]
        return sum(values) / len(values)

    return mean(h, h) + mean(g, g) - 2 * mean(h, g)


def same_class_loop(z, z_observed) -> list[list[float]]:
    rows = []
    for b in range(len(z)):
        observed = z_observed[b] if z_observed.ndim == 3 else z_observed
        p, row = softmax_loop(z[b].tolist()), []
        for k in range(len(observed)):
            q = softmax_loop(observed[k].tolist())
            row.append(sum(p[c] * q[c] for c in range(len(p))))
        rows.append(row)
    return rows


def discriminator_loop(z, y, z_observed, known=None) -> float:
    """Algorithm 2: the sum over classes, the mean over the batch."""
    h, total = same_class_loop(z, z_observed), 0.0
    for b in range(len(z)):
        for c in range(z.shape[1]):
            mask = known if known is None or known.ndim == 1 else known[b]
            if mask is None or bool(mask[c]):
                total -= math.log(h[b][c]) if c == int(y[b]) else math.log(1 - h[b][c])
    return total / len(z)


def to_means_loop(h, y, means, owned) -> float:
    total = 0.0
    for b in range(len(h)):
        c = int(y[b])
        for i in range(h.shape[1]):
            total += (float(h[b, i]) - float(means[c, i])) ** 2 if owned[c] else 0.0
    return total / len(h)
