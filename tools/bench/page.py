"""The page on speed, made from what was measured into data/speed/, and by `tools.faults`.

python -m tools.bench.page    # data/speed/README.md, its picture, a line of notebooks/README.md
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from matplotlib import pyplot as plt

from fedtutor import figures
from fedtutor.engine.files import ROOT, load_json, write_atomically

from .. import markdown
from .clients import EACH
from .layouts import BATCH
from .rounds import GPU_ONLY, MAIN, PARTS, RIVALS, SMALL, WORKLOADS, fastest, ratio, ratios

SPEED = ROOT / "data" / "speed"
ROUNDS = SPEED / "rounds.json", SPEED / "rounds-intel.json", SPEED / "rounds-gpu.json"
CLIENTS, LAYOUTS, PICTURE = SPEED / "clients.json", SPEED / "layouts.json", SPEED / "clients.png"
NOTEBOOKS = SPEED / "notebooks.json"
FAULTS = ROOT / "data" / "faults.json"
PAGES = SPEED / "README.md", ROOT / "notebooks" / "README.md"
BEGIN = "<!-- made by: python -m tools.bench.page -->"


def speed_part(found: dict) -> str:
    """What `rounds.record` returned: a line per workload, device and threads, and sentences."""
    told = [
        rounds_table([row for row in found["rows"] if row["workload"] in MAIN]),
        *per_image_part(found),
        *best_part([row for row in found["rows"] if "floor on one" in row["times"]]),
        *profile_part([row for row in found["rows"] if "parts" in row]),
        *gpu_part(found),
        machine_part(found["machine"]),
    ]
    return "\n\n".join(told)


def rounds_table(rows: Sequence[dict]) -> str:
    names = [f"{name} / ours" for name in RIVALS] + ["ours / floor", "ours / shared"]
    players = (*RIVALS, "floor", "shared", "ours")
    lines = []
    for row in rows:
        where = f"{row['threads']}" if row["device"] == "cpu" else f"{row['threads']}, GPU"
        times = [milliseconds(row, name) for name in players]
        known = ratios(row)
        cells = [f"{known[name]:.2f}" if name in known else "" for name in names]
        lines.append([row["title"], where, *times, *cells])
    return markdown.table(["a round of", "threads", *players, *names], lines)


def milliseconds(row: dict, name: str) -> str:
    """Median time of a round; nothing for who was not there."""
    return f"{1000 * median(row, fastest(row, name)):.0f} ms" if name in row["times"] else ""


def median(row: dict, name: str) -> float:
    return statistics.median(row["times"][name]["wall"])


def short(row: dict) -> str:
    """The network and the clients of a workload."""
    return ", ".join(row["title"].split(", ")[:2])


def per_image_part(found: dict) -> list[str]:
    if (each := per_image(found)) is None:
        return []
    words = "In processor time, with 4,000 images dealt evenly, an image costs with 100 clients"
    return [f"{words} {each:.2f} times what it costs with 10 (one thread)."]


def per_image(found: dict) -> float | None:
    """Processor time of an image with 100 equal clients by that with 10; None if not measured."""
    if "even" not in found:
        return None
    pairs = zip(found["even"]["even100"], found["even"]["even10"], strict=True)
    return statistics.median(hundred / ten for hundred, ten in pairs)


def best_part(rows: Sequence[dict]) -> list[str]:
    """What the floor, shared by all threads without loss, would make of the main comparison."""
    if not rows:
        return []
    told = []
    for row in rows:
        best = median(row, "floor on one") / row["threads"]
        usual, tensors = (median(row, fastest(row, name)) / best for name in RIVALS[1:])
        told.append(f"{short(row)}, {usual:.2f} and {tensors:.2f}")
    return [
        "No loop with these passes can take less than the floor shared by both threads without"
        " loss. That would be so many times as fast as *usual* and as *tensors*: "
        f"{'; '.join(told)}."
    ]


def profile_part(rows: Sequence[dict]) -> list[str]:
    """Where the milliseconds of a round go, ours and the floor's, and what own networks cost."""
    if not rows:
        return []
    names, lines = [*dict.fromkeys(name for name, _, _ in PARTS), "rest"], []
    for row in rows:
        for who in ("floor", "ours", "nobody trains"):
            spent = row["parts"][who]
            cells = [f"{1000 * spent[name]:.1f}" if name in spent else "" for name in names]
            lines.append([f"{short(row)}: {who}", *cells])
    told = "; ".join(f"{short(row)}: {ratio(row, 'apart', 'floor'):.2f}" for row in rows)
    return [
        "Where a round's milliseconds go (one thread, rounds of their own):",
        markdown.table(["a round of", *names], lines),
        "With a network and an optimizer for each client the floor takes so many times its time: "
        f"{told}.",
    ]


def gpu_part(found: dict) -> list[str]:
    """What two ideas gain on a GPU, and what several runs at once."""
    told, alone = [], {}
    for row in found["rows"]:
        gains = [f"{n} {ratio(row, 'ours', n):.2f}" for n in GPU_ONLY if n in row["times"]]
        if gains:
            told.append(
                f"{row['title']}, GPU, {row['threads']} threads: times faster than ours, of two "
                f"ideas that are not built in: {', '.join(gains)}."
            )
    for one in found["at_once"]:
        rate = one["rounds_per_second"]
        gain = rate / alone.setdefault(one["workload"], rate)
        if one["runs"] > 1:
            told.append(
                f"{WORKLOADS[one['workload']].title}: {one['runs']} runs at once on the GPU play "
                f"{gain:.1f} times as many rounds in a second as one."
            )
    return told


def machine_part(about: dict) -> str:
    chips = ", ".join(filter(None, [f"{about['cpu']}, {about['cores']} cores", about["gpu"]]))
    return (
        f"Medians of rounds that took turns in one process; {chips}, Python {about['python']}, "
        f"PyTorch {about['torch']}, {about['platform']}, load {about['load']:.1f} when it began."
    )


def layouts_part(found: dict) -> str:
    """A line per network and shape of images."""
    lines = []
    for row in found["rows"]:
        shape = f"{row['channels']} x {row['size']} x {row['size']}"
        gains = [f"{row[kind]:.2f}" for kind in ("train", "evaluate")]
        chosen = "channels-last" if row["chosen"] else "usual"
        lines.append([row["network"], shape, *gains, chosen])
    table = markdown.table(["network", "images", "training", "evaluation", "chosen"], lines)
    words = "The time of PyTorch's usual layout by that of channels-last"
    return f"{table}\n\n{words}, batches of {BATCH}, one thread."


def clients_part(found: dict) -> str:
    """A line per number of registered clients."""
    rows, ten = found["rows"], found["rows"][0]["round"]
    header = ["registered", "built in", "a round", "times a round of ten", "memory", "networks"]
    lines = [
        [
            f"{row['clients']:,}",
            f"{row['build']:.2f} s",
            f"{1000 * row['round']:.0f} ms",
            f"{row['round'] / ten:.2f}",
            f"{row['megabytes']} MB",
            row["networks"],
        ]
        for row in rows
    ]
    words = (
        f"FedAvg, LeNet5, {found['selected']} clients selected in each of "
        f"{len(rows[0]['rounds'])} rounds, {EACH} images each; processor seconds. Memory is what "
        "the federation adds to the images; networks are those of clients that took part once, "
        "and of one that is built to see whether it fits."
    )
    alt = (
        "What 10 to 10,000 registered clients cost: the time to build the federation grows, a "
        "round hardly does."
    )
    return f"{markdown.table(header, lines)}\n\n{words}\n\n![{alt}]({PICTURE.name})"


def clients_picture(found: dict, path: Path = PICTURE) -> None:
    """Seconds over the number of registered clients, both axes logarithmic."""
    counts = [row["clients"] for row in found["rows"]]
    ticks = {0.01: "10 ms", 0.1: "0.1 s", 1: "1 s"}
    lines = (
        ("build", "to build the federation", -1, (-10, 0)),
        ("round", "a round in which ten take part", 0, (0, 8)),
    )
    with figures.style():
        figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
        for key, words, at, offset in lines:
            values = [row[key] for row in found["rows"]]
            axes.plot(counts, values, marker="o")
            axes.annotate(
                words,
                (counts[at], values[at]),
                xytext=offset,
                textcoords="offset points",
                ha="right" if at else "left",
            )
        axes.set(xscale="log", yscale="log", ylim=(0.002, 2))
        axes.set(xlabel="registered clients", ylabel="processor seconds")
        axes.set_xticks(counts, [f"{count:,}" for count in counts])
        axes.set_yticks(list(ticks), list(ticks.values()))
        axes.minorticks_off()
        axes.set_title("Who is not selected costs next to nothing", loc="left")
        write_atomically(path, lambda name: figure.savefig(name, format="png", dpi=150))
        plt.close(figure)


def notebooks_part(found: dict) -> str:
    """A line per notebook."""
    lines = []
    for name, row in found.items():
        first = f"{row['first_figure']:.0f}" if row["first_figure"] else ""
        lines.append([name, f"{row['cpu']:.0f}", first])
    table = markdown.table(["notebook", "processor seconds", "until the first figure"], lines)
    return (
        f"{table}\n\nAs `python -m tools.refresh` measured them last, in the quick profile, "
        "with two threads, beside other work."
    )


def killed_part(killed: dict) -> str:
    """What `faults.record` returned, in a sentence."""
    places = ", ".join(f"{count} in {place}" for place, count in sorted(killed["places"].items()))
    return (
        f"Killed {killed['kills']} times at seeded moments ({places}), resumed "
        f"{killed['resumed']} times, results with other bits: {killed['differences']}."
    )


def measured() -> str:
    """What the files say that are there."""
    found = [
        "## A round",
        *(speed_part(load_json(path)) for path in ROUNDS if path.exists()),
        "## Layouts",
        layouts_part(load_json(LAYOUTS)),
        "## Many clients",
        clients_part(load_json(CLIENTS)),
        "## Notebooks",
        notebooks_part(load_json(NOTEBOOKS)),
        "## Killed and resumed",
        killed_part(load_json(FAULTS)),
    ]
    return "\n\n".join(found)


def in_short() -> str:
    """The sentence in notebooks/README.md."""
    rows = [row for row in load_json(ROUNDS[0])["rows"] if row["workload"] in SMALL]
    said = {(r["workload"], r["threads"]): f"{ratios(r)['usual / ours']:.1f}" for r in rows}
    return (
        "A loop as research code has it takes so many times as long as ours for the same work: "
        f"with 10 clients {said['lenet', 1]} on one core and {said['lenet', 2]} on two, with 100 "
        f"clients {said['many', 1]} and {said['many', 2]}."
    )


def main(arguments: list[str] | None = None) -> int:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args(arguments)
    clients_picture(load_json(CLIENTS))
    parts = zip(PAGES, (measured(), in_short()), strict=True)
    new = [page.parent.name for page, part in parts if markdown.update(page, part, BEGIN)]
    print(", ".join(new) or "as it was")
    return 0


if __name__ == "__main__":
    sys.exit(main())
