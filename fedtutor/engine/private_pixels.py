"""DP-SGD on the pixels of virtual images: what a single private image can do to them is bounded.

FedLGD (Sec. 5.5) names DP-SGD (Abadi et al. 2016) during the local distillation as a further
protection and neither runs it nor says how. Read here: its Algorithm 1 for Eq. 1, whose weights are
the pixels. Eq. 1 is the square of a difference of means, and no sum over private images; but up to
what the pixels cannot change it is a mean over them, |mean_i h_i - m|^2 = mean_i |h_i - m|^2 + a
constant, h_i the feature of private image i and m the mean feature of the virtual images of its
class. So an image has a gradient of its own, and it moves the virtual images of its class only.

What it costs: `methods.shared.privacy.sgd_epsilon(noise=virtual_noise, steps=..., rate=...)`, rate
the share of a class's images in a step (`virtual_batch` over their number). That does not count
what virtual images begin with, so begin with `virtual_init = "noise"`: class statistics and
private images are not protected. How many images of each class there are is taken to be known.
"""

import torch
from torch import Tensor, nn

from ..models import usual_layout


def private_matching(
    h_private: Tensor,
    y_private: Tensor,
    network: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    clip: float,
    noise: float,
    own: torch.Generator,
) -> Tensor:
    """A loss whose gradient for the pixels is that of DP-SGD (Abadi et al. 2016, Algorithm 1).

    Its value is that of Eq. 1. Its gradient for the virtual images of a class is
    (sum_i g_i min(1, clip / |g_i|) + N(0, (noise clip)^2)) / n over the n private images of that
    class in this step, g_i the gradient of |h_i - m|^2. h_private: [m, d] without gradient,
    y_private: [m], x: [v, c, h, w] with gradient, in the scale that networks see, y: [v]; classes
    that one of the sides lacks are left alone. Noise is drawn from `own`, on the CPU.
    """
    surrogate, value = x.new_zeros(()), x.new_zeros(())
    with usual_layout(network):
        h = network.features(x)
    for label in y.unique():
        rows = y == label
        h_class, m = h_private[y_private == label], h[rows].mean(0)
        if not len(h_class):
            continue
        (each,) = torch.autograd.grad(
            m, x, 2 * (m - h_class).detach(), is_grads_batched=True, retain_graph=True
        )
        each = each[:, rows]
        factor = (clip / each.flatten(1).norm(dim=1).clamp(min=1e-12)).clamp(max=1)
        total = torch.einsum("n,n...->...", factor, each)
        drawn = torch.randn(total.shape, generator=own, dtype=total.dtype).to(total.device)
        surrogate = surrogate + (x[rows] * (total + noise * clip * drawn)).sum() / len(h_class)
        value = value + (h_class.mean(0) - m).detach().square().sum()
    return surrogate - surrogate.detach() + value
