"""The page on speed, made from what the benchmarks wrote into data/speed/, and from faults.py.

python tests/bench_page.py    # data/speed/README.md, its picture, a line of notebooks/README.md
"""

import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench_clients import EACH
from bench_layouts import BATCH
from bench_rounds import GPU_ONLY, MAIN, PARTS, SMALL, WORKLOADS, fastest, ratio, ratios
from matplotlib import pyplot as plt

from fedtutor import figures
from fedtutor.engine.files import ROOT, load_json, write_atomically
from fedtutor.experiments import manifest
from fedtutor.report.tables import with_part

SPEED = ROOT / "data" / "speed"
ROUNDS = SPEED / "rounds.json", SPEED / "rounds-intel.json", SPEED / "rounds-gpu.json"
CLIENTS, LAYOUTS, PICTURE = SPEED / "clients.json", SPEED / "layouts.json", SPEED / "clients.png"
NOTEBOOKS = SPEED / "notebooks.json"
RIVALS = "naive", "usual", "tensors"
FAULTS = ROOT / "data" / "faults.json"
PAGES = SPEED / "README.md", ROOT / "notebooks" / "README.md"
BEGIN = "<!-- made by: python tests/bench_page.py -->"


def speed_part(found: dict) -> str:
    """Markdown: a line per workload, device and threads; then what does not fit into the table.

    `found` is what `record` returned.
    """
    names = [f"{name} / ours" for name in RIVALS] + ["ours / floor"]
    lines = [f"| a round of | threads | {' | '.join([*RIVALS, 'floor', 'ours', *names])} |",
             "| --- " * 11 + "|"]  # fmt: skip
    for row in found["rows"]:
        if row["workload"] in MAIN:
            times = [milliseconds(row, name) for name in (*RIVALS, "floor", "ours")]
            where = f"{row['threads']}" if row["device"] == "cpu" else f"{row['threads']}, GPU"
            times_ours = ratios(row)
            cells = [f"{times_ours[name]:.2f}" if name in times_ours else "" for name in names]
            lines.append(f"| {' | '.join([row['title'], where, *times, *cells])} |")
    if (each := per_image(found)) is not None:
        words = "In processor time, with 4,000 images dealt evenly, an image costs with 100 clients"
        lines += ["", f"{words} {each:.2f} times what it costs with 10 (one thread)."]
    lines += best_part([row for row in found["rows"] if "floor on one" in row["times"]])
    lines += profile_part([row for row in found["rows"] if "parts" in row])
    for row in [row for row in found["rows"] if row["device"] == "cuda"]:
        gains = [f"{name} {ratio(row, 'ours', name):.2f}" for name in GPU_ONLY
                 if name in row["times"]]  # fmt: skip
        if gains:
            lines += ["", f"{row['title']}, GPU, {row['threads']} threads: times faster than ours, "
                          f"of two ideas that are not built in: {', '.join(gains)}."]  # fmt: skip
    for one in found["at_once"]:
        if one["runs"] > 1:
            alone = next(o for o in found["at_once"] if o["workload"] == one["workload"])
            gain = one["rounds_per_second"] / alone["rounds_per_second"]
            title = WORKLOADS[one["workload"]].title
            lines += ["", f"{title}: {one['runs']} runs at once on the GPU play {gain:.1f} times "
                          "as many rounds in a second as one."]  # fmt: skip
    about = found["machine"]
    chips = ", ".join(filter(None, [f"{about['cpu']}, {about['cores']} cores", about["gpu"]]))
    lines += ["", f"Medians of rounds that took turns in one process; {chips}, Python "
                  f"{about['python']}, PyTorch {about['torch']}, {about['platform']}, load "
                  f"{about['load']:.1f} when it began."]  # fmt: skip
    return "\n".join(lines)


def milliseconds(row: dict, name: str) -> str:
    """Median time of a round; nothing for who was not there."""
    if name not in row["times"]:
        return ""
    return f"{1000 * statistics.median(row['times'][fastest(row, name)]['wall']):.0f} ms"


def best_part(rows: Sequence[dict]) -> list[str]:
    """What the floor, shared by all threads without loss, would make of the main comparison."""
    told = []
    for row in rows:
        loops = [statistics.median(row["times"][fastest(row, name)]["wall"]) for name in RIVALS[1:]]
        shared = statistics.median(row["times"]["floor on one"]["wall"]) / row["threads"]
        usual, tensors = (f"{loop / shared:.2f}" for loop in loops)
        title = ", ".join(row["title"].split(", ")[:2])
        told.append(f"{title}, {usual} and {tensors}")
    words = ("No loop with these passes can take less than the floor shared by both threads without"
             " loss. That would be so many times as fast as *usual* and as *tensors*")  # fmt: skip
    return ["", f"{words}: {'; '.join(told)}."] if told else []


def killed_part(killed: dict) -> str:
    """What `record` in faults.py returned, in a sentence."""
    places = ", ".join(f"{count} in {place}" for place, count in sorted(killed["places"].items()))
    return (f"Killed {killed['kills']} times at seeded moments ({places}), resumed "
            f"{killed['resumed']} times, results with other bits: "
            f"{killed['differences']}.")  # fmt: skip


def profile_part(rows: Sequence[dict]) -> list[str]:
    """Where the milliseconds of a round go, ours and the floor's, and what own networks cost."""
    if not rows:
        return []
    names = [*dict.fromkeys(name for name, _, _ in PARTS), "rest"]
    lines = ["", "Where a round's milliseconds go (one thread, rounds of their own):", "",
             f"| a round of | {' | '.join(names)} |",
             "| --- " * (len(names) + 1) + "|"]  # fmt: skip
    short = {row["workload"]: ", ".join(row["title"].split(", ")[:2]) for row in rows}
    for row in rows:
        for who in ("floor", "ours", "nobody trains"):
            spent = row["parts"][who]
            cells = [f"{1000 * spent[n]:.1f}" if n in spent else "" for n in names]
            lines.append(f"| {short[row['workload']]}: {who} | {' | '.join(cells)} |")
    told = "; ".join(f"{short[r['workload']]}: {ratio(r, 'apart', 'floor'):.2f}" for r in rows)
    return [*lines, "", "With a network and an optimizer for each client the floor takes so many "
                        f"times its time: {told}."]  # fmt: skip


def per_image(found: dict) -> float | None:
    """Processor time of an image with 100 equal clients by that with 10; None if not measured."""
    if "even" not in found:
        return None
    pairs = zip(found["even"]["even100"], found["even"]["even10"], strict=True)
    return statistics.median(hundred / ten for hundred, ten in pairs)


def clients_part(found: dict) -> str:
    """A line per number of registered clients."""
    rows, ten = found["rows"], found["rows"][0]["round"]
    lines = ["| registered | built in | a round | times a round of ten | memory | networks |",
             "| --- " * 6 + "|"]  # fmt: skip
    for row in rows:
        lines.append(
            f"| {row['clients']:,} | {row['build']:.2f} s | {1000 * row['round']:.0f} ms | "
            f"{row['round'] / ten:.2f} | {row['megabytes']} MB | {row['networks']} |"
        )
    return "\n".join([
        *lines, "", f"FedAvg, LeNet5, {found['selected']} clients selected in each of "
        f"{len(rows[0]['rounds'])} rounds, {EACH} images each; processor seconds. Memory is what "
        "the federation adds to the images; networks are those of clients that took part once, "
        "and of one that is built to see whether it fits.",
        "", "![What 10 to 10,000 registered clients cost: the time to build the federation grows, "
        f"a round hardly does.]({PICTURE.name})",
    ])  # fmt: skip


def clients_picture(found: dict, path: Path = PICTURE) -> None:
    """Seconds over the number of registered clients, both axes logarithmic."""
    counts, ticks = (
        [row["clients"] for row in found["rows"]],
        {0.01: "10 ms", 0.1: "0.1 s", 1: "1 s"},
    )
    lines = (("build", "to build the federation", -1, (-10, 0)),
             ("round", "a round in which ten take part", 0, (0, 8)))  # fmt: skip
    with figures.style():
        figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
        for key, words, at, offset in lines:
            values = [row[key] for row in found["rows"]]
            axes.plot(counts, values, marker="o")
            axes.annotate(words, (counts[at], values[at]), xytext=offset,
                          textcoords="offset points", ha="right" if at else "left")  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="registered clients",
                 ylabel="processor seconds", ylim=(0.002, 2))  # fmt: skip
        axes.set_xticks(counts, [f"{count:,}" for count in counts])
        axes.set_yticks(list(ticks), list(ticks.values()))
        axes.minorticks_off()
        axes.set_title("Who is not selected costs next to nothing", loc="left")
        write_atomically(path, lambda name: figure.savefig(name, format="png", dpi=150))
        plt.close(figure)


def layouts_part(found: dict) -> str:
    """A line per network and shape of images."""
    lines = ["| network | images | training | evaluation | chosen |", "| --- " * 5 + "|"]
    for row in found["rows"]:
        chosen = "channels-last" if row["chosen"] else "usual"
        lines.append(f"| {row['network']} | {row['channels']} x {row['size']} x {row['size']} | "
                     f"{row['train']:.2f} | {row['evaluate']:.2f} | {chosen} |")  # fmt: skip
    return "\n".join([*lines, "", f"The time of PyTorch's usual layout by that of channels-last, "
                                  f"batches of {BATCH}, one thread."])  # fmt: skip


def notebooks_part(found: dict) -> str:
    """A line per notebook."""
    lines = ["| notebook | processor seconds | until the first figure |", "| --- " * 3 + "|"]
    for name, row in found.items():
        first = f"{row['first_figure']:.0f}" if row["first_figure"] else ""
        lines.append(f"| {name} | {row['cpu']:.0f} | {first} |")
    words = ("As `python -m fedtutor refresh` measured them last, in the quick profile, with two "
             "threads, beside other work.")  # fmt: skip
    return "\n".join([*lines, "", words])


def shared(runs: Iterable[tuple[float, float, str]]) -> float:
    """Hours of (minutes, those before round 1, column): the latter once per column; two digits."""
    total, before = 0.0, {}
    for minutes, first, column in runs:
        total += minutes - first
        before[column] = max(first, before.get(column, 0.0))
    return float(f"{(total + sum(before.values())) / 60:.2g}")


def queue_part() -> str:
    """A line per table of the queue that was timed: what one seed of it takes a core, and a GPU."""
    tables, timed = {}, load_json(manifest.TIMED)["runs"]
    for run in manifest.load():
        if not run.seed:
            tables.setdefault(run.table, {})[run.cell] = run  # what two columns share, once
    lines = ["| table, data | timed runs of a seed | hours of a core | hours of a GPU |",
             "| --- " * 4 + "|"]  # fmt: skip
    for name, runs in tables.items():
        told = [run for run in runs.values() if run.cell.as_posix() in timed]
        if not told:
            continue
        found = [(run, timed[run.cell.as_posix()]) for run in told]
        core = shared((row["minutes"], row["parts"]["begin"], run.column) for run, row in found)
        gpu = shared((run.minutes, run.first * (row["parts"]["begin"] > 0.01), run.column)
                     for run, row in found)  # fmt: skip
        lines.append(f"| {name} | {len(told)} of {len(runs)} | {core:g} | {gpu:g} |")
    chips = " or ".join(sorted({row["processor"] for row in timed.values()}))
    return "\n".join([
        *lines, "", "Runs at the papers' own settings, as far as they were timed: two rounds made "
        f"small, each part multiplied by what was left out ({chips}). What comes before round 1 is "
        "counted once per column, because its methods share it: pretrained networks, distilled "
        "images. A laptop with four cores buys 32 hours of a core in a night. Hours of a GPU are "
        "estimates from counted operations; none was measured.",
    ])  # fmt: skip


def measured() -> str:
    """What the files say that are there."""
    found = ["## A round", *(speed_part(load_json(path)) for path in ROUNDS if path.exists()),
             "## Layouts", layouts_part(load_json(LAYOUTS)),
             "## Many clients", clients_part(load_json(CLIENTS)),
             "## The papers' own settings", queue_part(),
             "## Notebooks", notebooks_part(load_json(NOTEBOOKS)),
             "## Killed and resumed", killed_part(load_json(FAULTS))]  # fmt: skip
    return "\n\n".join(found)


def in_short() -> str:
    """The sentence in notebooks/README.md."""
    said = {(row["workload"], row["threads"]): f"{ratios(row)['usual / ours']:.1f}"
            for row in load_json(ROUNDS[0])["rows"] if row["workload"] in SMALL}  # fmt: skip
    return (
        "A loop as research code has it takes so many times as long as ours for the same work: "
        f"with 10 clients {said['lenet', 1]} on one core and {said['lenet', 2]} on two, with 100 "
        f"clients {said['many', 1]} and {said['many', 2]}."
    )


def update() -> bool:
    """Make both pages and the picture anew; return whether a page changed."""
    clients_picture(load_json(CLIENTS))
    changed = False
    for path, part in zip(PAGES, (measured(), in_short()), strict=True):
        text = path.read_text(encoding="utf-8")
        new = with_part(text, part, begin=BEGIN)
        if new != text:
            changed = True
            write_atomically(path, lambda name, new=new: Path(name).write_text(new, "utf-8"))
    return changed


if __name__ == "__main__":
    print("new" if update() else "as it was")
    sys.exit(0)
