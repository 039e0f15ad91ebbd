"""Tables, sheets of images and titles of notebook 06a, from what `seen_inversion` found."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from .. import figures
from ..errors import SettingError
from ..papers import spread, weakest
from ..randomness import generator
from .frame import sentence
from .seen_inversion import Attacked, by_class, decibels

EXACT = 40.0  # dB: no eye sees a difference
PROMISES = {  # method -> what goes up; what an image could be computed back from
    "fedavg": ("weights", "a gradient, after one step or a few (sections 2 to 4)"),
    "fccl": ("logits of public images", "no gradient crosses"),
    "fccl+": ("logits of public images, their similarities", "as for FCCL"),
    "fedcsd": ("weights, mean logits of each class",
               "a gradient; a mean of one image is its logits"),
    "repshare": ("mean features of each class", "no gradient; a mean of one image is its features"),
    "fedlgd": ("weights, trained on virtual images", "a gradient, of virtual images (section 6)"),
}  # fmt: skip


def title(cases: Mapping[str, Sequence[Attacked]], guess: Sequence[float]) -> str:
    """What a digit's company and noise do to it, as the title of the figure."""
    alone, shared = by_class(cases["a batch of 8"])
    single = sentence(decibels(cases["one digit"]) - EXACT,
                      above="A single digit comes back exactly",
                      below="A single digit comes back in part")  # fmt: skip
    noisy = sentence(guess - decibels(cases["one digit, noise of 1"]),
                     above="with noise of 1 as dots", below="with noise of 1 in part",
                     unclear="with noise of 1 no better than a guess")  # fmt: skip
    batch = sentence(alone - shared, above="in a batch, better without another of its class",
                     below="in a batch, better beside others of its class",
                     unclear="in a batch, whether its class matters is undecided")  # fmt: skip
    return f"{single}, {noisy}; {batch}"


def title_of_decibels(guess: float, level: float) -> str:
    """Which of two pictures has more decibels: a guess, or the digit with errors of `level` dB."""
    return sentence(
        [guess - level],
        above="More dB need not be easier to read: the digit has {level:.0f}, a guess {guess:.0f}",
        below="Fewer dB are harder to read: the digit has {level:.0f}, a guess {guess:.0f}",
        level=level, guess=guess,
    )  # fmt: skip


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
    """Whether each kind is found exactly; found: "raw" and "virtual", dB per seed."""
    over = {name: np.asarray(found[name]) - EXACT for name in ("raw", "virtual")}
    least = weakest(over)
    return sentence(over[least],
                    above="The attack finds raw images exactly, and virtual images, too",
                    below=f"The attack does not find {least} images exactly")  # fmt: skip


def what_hides(cases: Mapping[str, Sequence[Attacked]], guess: Sequence[float]) -> list[str]:
    """What batches, several steps and FedLGD's network do to the attack, one text each."""
    found = {name: decibels(attacked) for name, attacked in cases.items()}
    eight, convnet = found["a batch of 8"], found["one digit, FedLGD's ConvNet"]
    epochs = eight - found["8 digits, two epochs, 4 a step"]
    wrong = sum(not one.right for one in cases["8 digits, two epochs, 4 a step"])
    misread = (f" In {wrong} attacks it also misreads labels; which of the two costs more we did "
               "not separate." if wrong else "")  # fmt: skip
    larger = eight - found["a batch of 16"]
    return [
        sentence(
            larger,
            above="**Larger batches** hide more: a batch of 16 has {value} dB less than a batch "
            "of 8, because more digits share a class.",
            below="A batch of 16 has {value} dB more than a batch of 8.",
            unclear="Whether a batch of 16 hides more than a batch of 8 is undecided (PSNR of 8 "
            "minus PSNR of 16: {change} dB).",
            change=spread(larger, 0, signed=True),
        ),
        sentence(
            found["one digit, five steps"] - EXACT,
            above="**Five steps on one digit** hide nothing, because the attacker knows how many "
            "steps there were and imitates all of them.",
            below="**Five steps on one digit** hide a part of it.",
        ),
        sentence(
            epochs,
            above="**Two epochs in batches of four** cost the attacker {value} dB against one step "
            "on eight digits. No message says which digits formed a batch, so the attacker "
            f"guesses one division.{misread}",
            below="**Two epochs in batches of four** help the attacker by {value} dB.",
            unclear="Whether **two epochs in batches of four** hide more than one step on eight "
            "digits is undecided ({change} dB).",
            change=spread(epochs, 0, signed=True),
        ),
        sentence(
            guess - convnet,
            above="**FedLGD's ConvNet**: what is found has {value} dB *less* than the guess.",
            below="**FedLGD's ConvNet**: what is found has {value} dB more than the guess.",
            unclear="**FedLGD's ConvNet**: whether what is found is nearer than the guess is "
            "undecided (PSNR of the attack minus that of the guess: {change} dB).",
            change=spread(convnet - guess, 0, signed=True),
        ),
        "But look at the last row of the figure: some digits can be read! PSNR counts grain as "
        "much as a wrong shape. So a low number is not a proof of safety. This network differs "
        "from the other one in pooling, normalization and width. Which of these spoils the search "
        "we did not separate.",
    ]  # fmt: skip


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
                        ("noise of 1, found", "one digit, noise of 1"),
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


def with_both(found: Mapping[str, Mapping], one: str, other: str, **wordings: str) -> str:
    """What `one` minus `other` says with each of two data sets: once if it is the same with both.

    found: data set -> dB by kind, one per seed; wordings: as in `sentence`.
    """
    said = {name: sentence(kinds[one] - kinds[other], **wordings) for name, kinds in found.items()}
    if len(set(said.values())) == 1:
        return f"With both data sets, {next(iter(said.values()))}."
    first, second = (f"with {name}, {words}" for name, words in said.items())
    return f"W{first[1:]}; {second}."


def strongest(study: Mapping[str, Sequence[float]], method: str) -> np.ndarray:
    """AUC of membership, %, one per seed: of the method's message whose mean AUC is highest.

    study: numbers of `papers`, "method: message" -> AUC per seed.
    """
    mine = [values for key, values in study.items() if key.startswith(f"{method}: ")]
    if not mine:
        raise SettingError(f"nothing recorded for {method}", where="strongest",
                           do="give the numbers of the study 'papers'")  # fmt: skip
    return 100 * np.array(max(mine, key=lambda values: float(np.mean(values))))


def what_is_sent(study: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """One row per method: what goes up, from what an image could come back, AUC of `strongest`."""
    rows = {
        figures.display_name(method): {
            "goes up": sent, "an image could come from": path,
            "members told from others (AUC, %)": spread(strongest(study, method), 0),
        }
        for method, (sent, path) in PROMISES.items()
    }  # fmt: skip
    return pd.DataFrame(rows).T.rename_axis("method")


def without_weights(study: Mapping[str, Sequence[float]]) -> str:
    """Whether methods that send no weights tell less about membership than FedAvg's weights."""
    less = {name: strongest(study, "fedavg") - strongest(study, name)
            for name in ("fccl", "fccl+", "repshare")}  # fmt: skip
    decides = weakest(less)
    asked = "Membership is another question: was an image trained on (notebook 06)?"
    return f"{asked} " + sentence(
        less[decides],
        above="Messages without weights tell less about it than FedAvg's weights: FedAvg's AUC "
        "minus that of {rival}, the nearest, is {change} points.",
        below="Not every message without weights tells less about it than FedAvg's weights: "
        "FedAvg's AUC minus that of {rival} is {change} points.",
        unclear="Whether all three methods that send no weights tell less about it than FedAvg's "
        "weights is undecided. The comparison that stays open is with {rival}: FedAvg's AUC minus "
        "that of {rival} is {change} points.",
        rival=figures.display_name(decides), change=spread(less[decides], None, signed=True),
    )  # fmt: skip
