"""Attacks on what crossed the channel, and how well they work.

record.py      what an attacker holds: recorded messages, and nothing else
membership.py  was this image a training image? likelihood ratios, gradients, means
inversion.py   which images have this gradient?
quality.py     how close is a reconstruction?

The long experiments of notebook 06 are in `experiments/attack_studies.py`.
"""

from .inversion import (
    COSTS,
    Reconstruction,
    cosine_cost,
    gradient,
    invert,
    labels_from,
    layered_cosine_cost,
    local_steps,
    squared_cost,
    total_variation,
)
from .membership import (
    auc,
    coins,
    confidence,
    confidences,
    gradient_norms,
    imitate,
    in_mean,
    kernel_attack,
    kernel_ratio,
    lira,
    roc,
    shadows,
    tpr_at,
)
from .quality import lpips, lpips_missing, mse, nearest, paired, psnr, qualities, ssim, unit
from .record import (
    before_and_after,
    crossed,
    inventory,
    require_messages,
    way_of,
    with_weights,
)

__all__ = [
    "COSTS", "Reconstruction", "auc", "before_and_after",
    "coins", "confidence", "confidences", "cosine_cost", "crossed", "gradient", "gradient_norms",
    "imitate", "in_mean", "inventory", "invert", "kernel_attack", "kernel_ratio",
    "labels_from", "layered_cosine_cost", "lira", "local_steps", "lpips", "lpips_missing", "mse",
    "nearest", "paired", "psnr", "qualities", "require_messages", "roc", "shadows",
    "squared_cost", "ssim", "total_variation", "tpr_at", "unit", "way_of", "with_weights",
]  # fmt: skip
