"""A look at a scenario before anything is trained: images, classes, intensities, distances.

    figure, table = classes(scenario)

Each function returns the figure and the numbers behind it. FedLGD shows its data like this (Figs.
12 to 14: images; 18 to 20: how often each intensity occurs in red, green and blue).
"""

from itertools import zip_longest

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch.nn import functional as F

from .. import figures
from ..figures.drawing import BLUE, GREEN, VERMILION, canvas, caption, style
from ..measures import median_distance, mmd
from ..randomness import generator

ROWS, COLUMNS = 12, 10  # domains and images that one figure shows at most
DRAWN = 300  # test images of a domain whose halves are compared


def sheet(scenario) -> tuple[Figure, pd.DataFrame]:
    """Private images of each domain, one per class while they last, and public ones below."""
    rows, sizes = {}, {}
    for domain, images in _domains(scenario).items():
        rows[domain] = _one_per_class(images, COLUMNS, generator(0, domain, "sheet"))
        sizes[domain] = len(images)
    if scenario.public is not None:
        own = generator(0, "public", "sheet")
        some = torch.randperm(len(scenario.public), generator=own)[:COLUMNS]
        rows["public"], sizes["public"] = scenario.public.x[some], len(scenario.public)
    left = len(scenario.tests) - len(rows) + (scenario.public is not None)
    title = f"{scenario.name}: what the clients see" + (f" ({left} domains more)" if left else "")
    table = pd.DataFrame({"data": list(sizes), "images": list(sizes.values())})
    return figures.contact_sheet(rows, title=title), table


def classes(scenario) -> tuple[Figure, pd.DataFrame]:
    """How many images of each class each client holds."""
    counts = {c.id: c.private.counts(scenario.num_classes) for c in scenario.clients}
    share = np.mean([max(row) / sum(row) for row in counts.values()])
    equal = figures.percent(1 / scenario.num_classes)
    title = (f"{scenario.name}: a client's most frequent class has on average "
             f"{figures.percent(share)} of its images ({equal} if all were equal)")  # fmt: skip
    if all(min(row) == max(row) for row in counts.values()):
        title = f"{scenario.name}: every client has equally many images of every class"
    figure = figures.class_histogram(counts, title=title, class_names=scenario.class_names)
    table = pd.DataFrame(counts, index=list(scenario.class_names)).T.rename_axis("client")
    return figure, table.reset_index()


@style()
def intensities(scenario) -> tuple[Figure, pd.DataFrame]:
    """How often each intensity from 0 to 255 occurs per channel in each domain's private images."""
    shares = {}
    for domain, images in _domains(scenario).items():
        for channel in range(images.x.shape[1]):
            found = torch.bincount(images.x[:, channel].flatten().long() // 16, minlength=16)
            shares[domain, channel] = (found / found.sum()).numpy()
    mean = {d: float(images.x.float().mean()) for d, images in _domains(scenario).items()}
    dark, bright = min(mean, key=mean.get), max(mean, key=mean.get)
    title = (f"{scenario.name}: {dark} is darkest (mean {mean[dark]:.0f} of 255), "
             f"{bright} brightest ({mean[bright]:.0f})") if dark != bright else (
             f"{scenario.name}: mean brightness is {mean[dark]:.0f} of 255")  # fmt: skip
    columns = min(4, len(mean))
    lines = -(-len(mean) // columns)
    figure = canvas(title, height=1.2 + 2.0 * lines)
    grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    for axes, domain in zip_longest(grid.flat, mean):
        for c, color in enumerate((VERMILION, GREEN, BLUE)):
            if (domain, c) in shares:
                axes.stairs(100 * shares[domain, c], np.arange(0, 257, 16), color=color, lw=1.2)
        axes.set_title(domain or "", size=9, loc="left")
        axes.set(xlim=(0, 256), xticks=(0, 128, 255), visible=domain is not None)
    grid[0, 0].set_ylim(bottom=0)
    figure.supxlabel("brightness", size=9)
    grid[0, 0].set_ylabel("pixels (%)")
    caption(figure, "Red, green and blue lines: the three channels; gray images have them equal.")
    table = pd.DataFrame({f"{d}, {'RGB'[c]}": 100 * v for (d, c), v in shares.items()})
    table.insert(0, "from intensity", range(0, 256, 16))
    return figure, table.round(2)


def halves(scenario, *, seed: int = 0) -> tuple[dict[str, tuple], float]:
    """Domain -> two halves of 300 test images, as rows of 8 x 8 pixels per channel; a bandwidth.

    Pixels lie between 0 and 1. The bandwidth is the median distance between images of all domains.
    """
    found = {}
    for name, images in list(scenario.tests.items())[:ROWS]:
        own = generator(seed, name, "distances")
        some = torch.randperm(len(images), generator=own)[:DRAWN]
        small = F.adaptive_avg_pool2d(images.x[some].float() / 255, 8).flatten(1)
        found[name] = small[: len(small) // 2], small[len(small) // 2 :]
    return found, median_distance(torch.cat([first[:50] for first, _ in found.values()]))


def between(scenario, *, seed: int = 0) -> np.ndarray:
    """Maximum mean discrepancy between `halves` of domains: [domains, domains].

    An entry compares one half of a domain with the other half of another, so the diagonal says
    what chance alone gives. Both ways to do so are averaged.
    """
    found, bandwidth = halves(scenario, seed=seed)
    return np.array([
        [(mmd(found[a][0], found[b][1], bandwidth=bandwidth)
          + mmd(found[a][1], found[b][0], bandwidth=bandwidth)) / 2 for b in found]
        for a in found
    ])  # fmt: skip


def distances(scenario, *, seeds=(0,)) -> tuple[Figure, pd.DataFrame]:
    """Distances between domains, see `between`: mean and standard deviation over `seeds`."""
    names = list(scenario.tests)[:ROWS]
    drawn = np.array([between(scenario, seed=seed) for seed in seeds])
    values, sd = drawn.mean(axis=0), drawn.std(axis=0, ddof=1) if len(drawn) > 1 else None
    title = f"{scenario.name}: one domain, no distance to compare"
    if len(names) > 1:
        off = np.where(np.eye(len(names), dtype=bool), -1, values)
        i, j = np.unravel_index(off.argmax(), off.shape)
        title = (f"{scenario.name}: {names[i]} and {names[j]} are farthest apart (MMD "
                 f"{values[i, j]:.2f}; two halves of one domain: "
                 f"at most {values.diagonal().max():.2f})")  # fmt: skip
    figure = figures.matrix(values, title=title, rows=names, columns=names, xlabel="domain",
                            ylabel="domain", unit="MMD, from 0 to 1.4", decimals=2, limit=2**0.5,
                            spreads=sd, signed=False)  # fmt: skip
    return figure, pd.DataFrame(values.round(3), columns=names).assign(domain=names)


def _domains(scenario) -> dict:
    """The private images of a client of each domain, up to `ROWS` of them."""
    found = {}
    for client in scenario.clients:
        found.setdefault(client.domain, client.private)
    return dict(list(found.items())[:ROWS])


def _one_per_class(images, columns: int, own: torch.Generator) -> torch.Tensor:
    order = torch.randperm(len(images), generator=own)
    turn = torch.zeros(len(order), dtype=torch.long)
    for label in images.y.unique():
        mine = images.y[order] == label
        turn[mine] = torch.arange(int(mine.sum()))
    return images.x[order[(turn * 10_000 + images.y[order]).argsort()][:columns]]
