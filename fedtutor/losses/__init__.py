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
from .averaging import (
    adam_squares,
    adaptive_step,
    continuous_restriction,
    control_variate,
    dynamic_regularizer,
    gradient_memory,
    mean_prototypes,
    model_contrastive,
    nova_normalizer,
    nova_step,
    prototype_contrastive,
    prototype_distance,
    restricted_cross_entropy,
    restriction,
    server_momentum,
    tempered_distillation,
    yogi_squares,
)
from .basic import cross_entropy, distillation, proximal_term, score_distillation
from .fccl import (
    collaborative_loss,
    cross_correlation,
    cross_correlation_code,
    dual_distillation,
    dual_domain_loss,
)
from .fccl_plus import (
    communication_loss,
    distilled_loss,
    ewc_penalty,
    instance_similarity,
    instance_similarity_loss,
    non_target_distillation,
    non_target_loss,
    renormalized_non_target_distillation,
    target_distillation,
    target_logit_gradient,
    without_diagonal,
)
from .fedcsd import (
    adaptive_mask,
    class_prototypes,
    class_similarity_distillation,
    confidence_penalty,
    feature_distillation,
    fedcsd_loss,
    fedcsd_loss_code,
    forcible_mask,
    global_prototypes,
    logit_distillation,
    moving_average,
    prototype_similarity,
    refined_logits,
    similarity_scores,
)
from .fedlgd import (
    distribution_matching,
    fedlgd_loss,
    gradient_distance,
    gradient_distance_code,
    mmd_regularizer,
    noise_alignment,
    supervised_contrastive,
    supervised_contrastive_code,
)
from .repshare import (
    best_discriminator,
    contrastive_objective,
    discriminator_loss,
    discriminator_loss_code,
    fd_loss,
    information_bound,
    representation_distance,
    repshare_loss,
    same_class,
)
