"""Attacks on what crossed the channel, and how well they work.

record.py      what an attacker holds: recorded messages, and nothing else
membership.py  was this image a training image? likelihood ratios, gradients, means
inversion.py   which images have this gradient?
quality.py     how close is a reconstruction?

The long experiments of notebook 06 are in `experiments/attack_studies.py` and
`experiments/attack_messages.py`.
"""

from .inversion import (
    Reconstruction,
    cosine_cost,
    gradient,
    invert,
    labels_from,
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
    kernel_ratio,
    lira,
    roc,
    shadows,
    tpr_at,
)
from .quality import lpips, lpips_missing, mse, nearest, paired, psnr, qualities, ssim, unit
from .record import before_and_after, crossed, inventory, way_of, with_weights
