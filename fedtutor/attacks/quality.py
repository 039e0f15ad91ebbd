"""How close a reconstruction is: MSE, PSNR, SSIM, and LPIPS where its weights can be had.

Images are float [n, c, h, w] with pixels from 0 to 1. MSE and LPIPS are *distances*: lower is
closer to the original, so worse for privacy. PSNR and SSIM are the other way round.
"""

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import torch
from scipy.optimize import linear_sum_assignment
from skimage.metrics import structural_similarity
from torch import Tensor
from torch.nn.functional import interpolate

from ..errors import DataError

BACKBONE = "alexnet-owt-7be5be79.pth"  # torchvision's ImageNet weights, on which LPIPS stands


def unit(x: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Pixels from 0 to 1 of images in the scale that networks see, cut off at both ends."""
    m, s = (torch.tensor(v, device=x.device).view(1, -1, 1, 1) for v in (mean, std))
    return (x.detach() * s + m).clamp(0, 1)


def mse(x: Tensor, original: Tensor) -> Tensor:
    """Mean squared error of each image, float64 [n]."""
    _same(x, original)
    return (x.double() - original.double()).square().flatten(1).mean(1)


def psnr(x: Tensor, original: Tensor) -> Tensor:
    """-10 log10(MSE) in dB, float64 [n]: 20 dB is an error of a tenth of the range."""
    return -10 * mse(x, original).log10()


def ssim(x: Tensor, original: Tensor) -> Tensor:
    """Structural similarity (Wang et al. 2004) by scikit-image, windows of 7 pixels, [n]."""
    _same(x, original)
    pairs = zip(x.double().cpu().numpy(), original.double().cpu().numpy(), strict=True)
    return torch.tensor([structural_similarity(a, b, channel_axis=0, data_range=1.0)
                         for a, b in pairs], dtype=torch.float64)  # fmt: skip


def paired(x: Tensor, original: Tensor) -> Tensor:
    """`original` in the order in which it fits `x` best, by the sum of MSE.

    A gradient is a mean over the batch: it does not know the order.
    """
    _same(x, original)
    apart = torch.cdist(x.flatten(1).double(), original.flatten(1).double()) ** 2
    return original[torch.from_numpy(linear_sum_assignment(apart.cpu().numpy())[1])]


def nearest(x: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """MSE to the nearest of `others` and its index, for every image of x: float64 and int64 [n]."""
    apart = torch.cdist(x.flatten(1).double(), others.flatten(1).double()) ** 2
    least = apart.min(1)
    return least.values / x[0].numel(), least.indices


def lpips_missing() -> str:
    """Why LPIPS cannot be computed here; empty where it can.

    Nothing is downloaded: the package brings the small layers of LPIPS; the AlexNet below them is
    torchvision's, and its weights must lie in PyTorch's cache.
    """
    if find_spec("lpips") is None:
        return "LPIPS is left out: the package lpips is not installed"
    if not (Path(torch.hub.get_dir()) / "checkpoints" / BACKBONE).exists():
        return f"LPIPS is left out: the weights {BACKBONE} are not in PyTorch's cache"
    return ""


def lpips(x: Tensor, original: Tensor) -> Tensor:
    """LPIPS with AlexNet (Zhang et al. 2018), float64 [n]; a distance, 0 for equal images.

    Raises `DataError` where `lpips_missing` says why not. Gray images count as three equal
    channels; images below 64 pixels are enlarged to that, which AlexNet needs.
    """
    if reason := lpips_missing():
        raise DataError(reason, where="attacks.lpips",
                        do="pip install lpips, and run torchvision.models.alexnet once with its "
                        "ImageNet weights")  # fmt: skip
    import lpips as library

    _same(x, original)
    with warnings.catch_warnings():  # it calls torchvision in a way that is no longer liked
        warnings.simplefilter("ignore")
        network = library.LPIPS(net="alex", verbose=False).eval()
    size = [max(64, side) for side in x.shape[2:]]
    pair = [interpolate(p.float().expand(-1, 3, -1, -1), size=size, mode="bilinear")
            for p in (x, original)]  # fmt: skip
    with torch.no_grad():
        return network(*pair, normalize=True).flatten().double()


def qualities(x: Tensor, original: Tensor) -> dict[str, Tensor]:
    """Every measure that can be had, [n] each: "MSE", "PSNR", "SSIM", and "LPIPS" or not."""
    found = {"MSE": mse(x, original), "PSNR": psnr(x, original), "SSIM": ssim(x, original)}
    if not lpips_missing():
        found["LPIPS"] = lpips(x, original)
    return found


def _same(x: Tensor, original: Tensor) -> None:
    if x.shape != original.shape or x.ndim != 4 or not len(x):
        raise DataError(f"images {list(x.shape)} and {list(original.shape)}", where="attacks",
                        do="give two sets [n, channels, height, width] of one shape")  # fmt: skip
