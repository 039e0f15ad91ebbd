"""Every loss, one pure function per numbered equation; one file per paper or family.

Functions of tensors and nothing else: no model, no device, no logging. Logits are `z`
[batch, classes], labels `y` [batch].
"""

from .agreement import (
    agreement_labels,
    client_confidence,
    helper_consistency,
    hhf_loss,
    logit_l1,
    logit_mse,
    mean_scores,
    mutual_loss,
    symmetric_cross_entropy,
)
from .basic import (
    cross_entropy,
    distillation,
    proximal_term,
    score_distillation,
)
from .fccl import (
    collaborative_loss,
    cross_correlation,
    cross_correlation_code,
    dual_distillation,
    dual_domain_loss,
)
