"""Tables, sheets of images and titles of notebook 06a, from what `seen_inversion` found."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from .. import figures
from ..errors import SettingError
from ..papers import spread
from ..randomness import generator
from .frame import sentence
from .seen_inversion import Attacked, by_class, decibels

EXACT = 40.0  # dB: no eye sees a difference
PROMISES = {  # method -> what goes up; what an image could be computed back from
    "fedavg": ("weights", "a gradient, after one step or a few (sections 2 to 4)"),
    "fccl": ("logits of public images", "no gradient; a copy that imitates them"),
    "fccl+": ("logits of public images, their similarities", "as for FCCL"),
    "fedcsd": ("weights, mean logits of each class", "a gradient; a mean of one has its logits"),
    "repshare": ("mean features of each class", "no gradient; a mean of one has its features"),
    "fedlgd": ("weights, trained on virtual images", "a gradient, of virtual images (section 6)"),
}  # fmt: skip


def title(cases: Mapping[str, Sequence[Attacked]], guess: Sequence[float]) -> str:
    """What a digit's company and noise do to it, as the title of the figure."""
    alone, shared = by_class(cases["a batch of 8"])
    parts = [
        sentence(decibels(cases["one digit"]) - EXACT, above="A digit alone comes back exactly",
                 below="A digit alone comes back in part"),
        sentence(alone - shared, above="in a batch, best without another of its class",
                 below="in a batch, better beside others of its class",
                 unclear="in a batch, its class makes no visible difference"),
        sentence(guess - decibels(cases["one digit, noise"]), above="with noise, nothing",
                 below="with noise, a part", unclear="with noise, no more than a guess"),
    ]  # fmt: skip
    return "; ".join(parts)


def title_of_noise(left: Sequence[float]) -> str:
    """What DP-SGD does to one digit; left: dB with shortening alone, then with more and more noise.

    One seed, so that the words say what this digit shows.
    """
    first = sentence([left[0] - EXACT], above="Shortened alone, the digit comes back exactly",
                     below="Shortened alone, the digit comes back in part")  # fmt: skip
    last = sentence([left[0] - left[-1]], above="with noise it fades away",
                    below="noise does not hide it")  # fmt: skip
    return f"{first}; {last}"


def title_of_raw_and_virtual(found: Mapping[str, Sequence[float]]) -> str:
    """How well each kind is found; found: "raw" and "virtual", dB per seed."""
    return sentence(
        np.asarray(found["raw"]) - np.asarray(found["virtual"]),
        above="The attack finds raw images more exactly than virtual ones",
        below="The attack finds virtual images even more exactly than raw ones",
        unclear="The attack finds what was trained on, raw or virtual, equally well",
    )


def table(cases: Mapping[str, Sequence[Attacked]], guess: Sequence[float]) -> pd.DataFrame:
    """One row per case: mean dB over seeds, and how many times the labels were right."""
    rows = {name: {"PSNR (dB)": spread(decibels(v), 0),
                   "labels right": f"{sum(one.right for one in v)} of {len(v)}"}
            for name, v in cases.items()}  # fmt: skip
    rows["no message: the average digit"] = {"PSNR (dB)": spread(guess, 0), "labels right": "-"}
    return pd.DataFrame(rows).T.rename_axis("what the client did")


def at_decibels(image: Tensor, levels: Sequence[float], *, seed: int = 0) -> Tensor:
    """[len(levels), ...]: `image` with an error of exactly so many dB in every pixel.

    Each pixel goes up or down by 10^(-dB / 20), by chance, but stays between 0 and 1. Levels from
    7 dB on: below, one step would be wider than half of the box.
    """
    if min(levels) < 7:
        raise SettingError(f"{min(levels)} dB", where="at_decibels", do="ask for 7 dB or more")
    shown, up = [], torch.rand(image.shape, generator=generator(seed, "decibels")) < 0.5
    for level in levels:
        step = 10 ** (-level / 20)
        goes_up = (up | (image < step)) & (image + step <= 1)
        shown.append(torch.where(goes_up, image + step, image - step))
    return torch.stack(shown)


def footer(data: str, seeds: Sequence[int]) -> str:
    """The line under a figure whose data are not the notebook's scenario."""
    return f"{data} · quick · seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def sheet(rows: Mapping[str, Tensor], *, title: str, columns: Sequence[str] | None = None):
    """`figures.contact_sheet` for pixels from 0 to 1, row -> [n, channels, height, width]."""
    as_bytes = {name: (255 * x.clamp(0, 1)).round().to(torch.uint8) for name, x in rows.items()}
    return figures.contact_sheet(as_bytes, columns, title=title)


def compared(cases: Mapping[str, Sequence[Attacked]]) -> dict[str, Tensor]:
    """Rows of a sheet: a batch of eight (first seed), single digits (every seed); originals."""
    first = cases["a batch of 8"][0]
    order = first.y.argsort(stable=True)
    rows = {"batch of 8, true": first.originals[order], "batch of 8, found": first.found[order]}
    for words, name in (("one digit, found", "one digit"),
                        ("with noise, found", "one digit, noise"),
                        ("ConvNet, found", "one digit, FedLGD's ConvNet")):  # fmt: skip
        if words == "one digit, found":
            rows["one digit, true"] = torch.cat([one.originals for one in cases[name]])
        rows[words] = torch.cat([one.found for one in cases[name]])
    return rows


def photographs(study: Mapping) -> dict[str, np.ndarray]:
    """CIFAR-10, recorded: dB of what was found, one per seed.

    study: numbers of `pictures-cifar10`. "raw": to the private image trained on; "virtual": to the
    virtual image trained on; "virtual, same": to the private image of "raw"; "virtual, private": to
    the nearest of the 50 private images; "virtual, unseen": to the nearest of 50 never used.
    """

    def of(kind, *path):
        values = []
        for numbers in study["seeds"]:
            value = numbers[kind]
            for key in path:
                value = value[key]
            values.append(value)
        return np.array(values)

    return {
        "raw": of("raw", "to used", "PSNR"), "virtual": of("distilled", "to used", "PSNR"),
        "virtual, same": of("distilled", "to a private image", "PSNR"),
        "virtual, private": -10 * np.log10(of("distilled", "nearest private")),
        "virtual, unseen": -10 * np.log10(of("distilled", "nearest unseen")),
    }  # fmt: skip


def what_is_sent(study: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """One row per method: what goes up, from what an image could come back, AUC of membership.

    study: numbers of `papers`, "method: message" -> AUC per seed. A method's strongest message.
    """
    rows = {}
    for method, (sent, path) in PROMISES.items():
        mine = [values for key, values in study.items() if key.startswith(f"{method}: ")]
        if not mine:
            raise SettingError(f"nothing recorded for {method}", where="what_is_sent",
                               do="give the numbers of the study 'papers'")  # fmt: skip
        best = max(mine, key=lambda values: float(np.mean(values)))
        rows[figures.display_name(method)] = {
            "goes up": sent, "an image could come from": path,
            "members told from others (AUC, %)": spread([100 * v for v in best], 0),
        }  # fmt: skip
    return pd.DataFrame(rows).T.rename_axis("method")
