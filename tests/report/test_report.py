"""The report: what is counted, what is read, and that README.md and notebooks agree with it."""

import json
import re
import shutil
import statistics
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fedtutor import papers
from fedtutor.difference import NO_DIFFERENCE, TOO_CLOSE
from fedtutor.engine.files import DATA, save_json
from fedtutor.errors import SettingError, StorageError
from fedtutor.experiments import manifest as queue
from fedtutor.experiments import results
from fedtutor.papers import Claims, ledger, printed
from fedtutor.papers.verdicts import (
    AHEAD,
    BEHIND,
    HOLDS,
    LIVE,
    NO_VERDICT,
    NOT_TESTABLE,
    OTHER_IMAGES,
    RECORDS,
    records_in,
)
from fedtutor.report import tables
from fedtutor.report.tables import AGREES, NEITHER, ONE, OPEN, PAPER, REDUCED, STAND_IN

NOTEBOOKS = sorted(ledger.NOTEBOOKS.glob("[0-9][0-9]*.ipynb"))


@pytest.fixture(scope="module")
def made():
    return tables.build()


@pytest.fixture(scope="module")
def book():
    return papers.claims()


# --- what is committed


def test_a_measured_table_has_the_seeds_that_all_its_rows_have(made):
    """Else the reports and the notebooks' tables would go on with the first three."""
    asked, there, recorded = {}, {}, results.load_all()
    for run in made.runs:
        if run.manifest == tables.MEASURED:
            asked.setdefault(run.table, set()).add(run.seed)
            own = {s for s in range(10) if replace(run, seed=s).path(results.RESULTS) in recorded}
            there[run.table] = there.get(run.table, own) & own
    short = {table: sorted(there[table] - seeds) for table, seeds in asked.items()}
    assert not {table: missing for table, missing in short.items() if missing}


def test_every_committed_result_that_a_list_names_is_sound(made):
    assert made.faults == ()


def test_every_run_that_the_notebooks_show_is_recorded(made):
    missing = [
        run.name
        for run in made.runs
        if run.manifest == tables.MEASURED and run.path(made.folder) not in made.found
    ]
    assert not missing, "record them, or move them to data/waiting.toml"


def test_what_waits_to_be_recorded_can_be_played_and_is_not_there():
    runs = queue.load(DATA / "waiting.toml")
    found, faults = queue.survey(runs, results.RESULTS)
    assert runs and {run.recipe.profile for run in runs} == {"quick"} and not faults
    assert not {run.name for run in runs if run.path(results.RESULTS) in found}, "to measured.toml"


def test_all_41_tables_are_counted(made, book):
    coverage = made.coverage(book)
    assert len(coverage) == len(papers.tables()) == 41
    assert (coverage[list(tables.COLUMNS.values())].sum(axis=1) == coverage["numbers"]).all()
    assert coverage["numbers"].sum() == len(printed.accuracies())
    empty = coverage[coverage["numbers"] == 0]
    assert set(zip(empty["paper"], empty["table"], strict=True)) == set(
        ledger.owners()["not_accuracy"]
    )


def test_the_mnist_column_of_repshare_is_there_at_the_papers_settings(made):
    cells = made.best[(made.best["paper"] == "RepShare") & (made.best["setting"] == PAPER)]
    assert len(cells[cells["column"].str.startswith("MNIST")]) == 15  # all rows but its own
    assert cells["machine"].str.contains(r"torch 2\.").all()
    whole = cells["column"].str.startswith("MNIST")  # Fashion-MNIST's fills cell by cell
    assert (cells[whole]["seeds"] == "0, 1, 2").all() and whole.sum() < len(whole)
    assert set(cells[~whole]["seeds"]) <= {"0", "0, 1", "0, 1, 2"}


# --- who owns what


def test_every_table_and_claim_has_one_owner_and_the_notebooks_agree(book):
    owner = ledger.owners()
    every = {claim["id"] for paper in printed.PAPERS for claim in papers.claims_of(paper)}
    assert owner["claims"].keys() == every and set(owner["tables"]) == set(papers.tables())
    measured = book[(book["paper"] != ledger.OURS) & (book["verdict"] != ledger.OPEN)]
    for id, notebook in measured["notebook"].items():
        said = f"{id}: data/owners.toml has {owner['claims'][id]}, but it is measured in {notebook}"
        assert owner["claims"][id] == notebook, said


def test_what_a_notebook_names_in_its_code_is_not_open(book):
    """A claim that no measurement could refute stays open; one that is measured has a record."""
    code = {}
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        source = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        code[path.stem.partition("_")[0]] = "\n".join(source)
    left = book[book["verdict"] == ledger.OPEN]["notebook"]
    named = [id for id, notebook in left.items() if f'"{id}"' in code.get(notebook, "")]
    assert not named, "execute their notebooks"
    assert len(left) < len(book) / 5


def mentioned(text: str, keys: list[str]) -> set[str]:
    """The keys in "Table 1", "Tables V to VII", "Figs. 7, 9 and 10"; 7 and Fig7 are two things."""
    order = list(dict.fromkeys(key.partition("-")[0] for key in keys))
    found = set()
    for kind, names in re.findall(r"(Table|Fig)s?\.? ((?:[0-9IVX]+|, | and | to )+)", text):
        for part in re.split(", | and ", names):
            first, _, last = (("Fig" if kind == "Fig" else "") + n for n in part.partition(" to "))
            ends = [order.index(n) for n in (first, last) if n in order]
            found |= set(order[min(ends) : max(ends) + 1]) if ends else set()
    return found


def test_a_notebook_speaks_of_the_tables_that_it_owns():
    texts = {path.stem.partition("_")[0]: path.read_text(encoding="utf-8") for path in NOTEBOOKS}
    for (paper, key), notebook in ledger.owners()["tables"].items():
        if notebook in texts and key != "text":
            keys = [k for p, k in papers.tables() if p == paper]
            assert key.partition("-")[0] in mentioned(texts[notebook], keys), (paper, key)


@pytest.mark.parametrize(
    "old, new, words",
    [
        ('"fccl-08", ', "", "nobody owns fccl-08"),
        ('"fccl-08", ', '"fccl-08", "fccl-08", ', "fccl-08 is owned twice"),
        ('"fccl-08", ', '"fccl-08", "fccl-99", ', "fccl-99 is unknown"),
        ('"FCCL 1", ', "", r"nobody owns FCCL 1"),
    ],
)
def test_a_wrong_list_of_owners_is_one_clear_error(old, new, words, tmp_path):
    path = tmp_path / "owners.toml"
    text = ledger.OWNERS.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(SettingError, match=words):
        ledger.owners(path)


# --- the ledger


def notebook_with(table: Claims, path: Path) -> None:
    cell = {
        "cell_type": "code",
        "metadata": {"tags": ["claims"]},
        "source": "",
        "outputs": [{"data": {RECORDS: table.records()}}],
    }
    path.write_text(json.dumps({"cells": [cell]}), encoding="utf-8")


def measured_claims(setting="tiny · quick · seeds 0, 1, 2 & <b>more</b>"):
    table = Claims("FCCL")
    table.measure(
        "fccl-01", [1.0, 1.1, 1.2], claimed=+1, unit="points", setting=setting, stand_in=True
    )
    table.not_testable("fccl-05", "Office-Home")
    table.add("extra-01", "Something & nothing < everything", "section 3")
    table.measure("extra-01", [-2.0, -2.1], claimed=+1, unit="points", setting="x", stand_in=False)
    return table


def test_the_ledger_is_what_the_notebooks_show(tmp_path):
    notebook_with(measured_claims(), tmp_path / "01b_x.ipynb")
    book = papers.claims(folder=tmp_path)
    first = book.loc["fccl-01"]
    assert (first["paper"], first["notebook"]) == ("FCCL", "01b")
    assert (first["at"], first["claimed"], first["live"]) == (OTHER_IMAGES, 1, True)
    assert first["measured"] == "+1.1 [+0.9, +1.3] points (3 seeds)"
    assert first["setting"] == "tiny · quick · seeds 0, 1, 2 & <b>more</b>; measured here"
    own = book.loc["extra-01"]
    assert own["paper"] == ledger.OURS and own["claim"] == "Something & nothing < everything"
    assert own["verdict"] == BEHIND
    counts = ledger.counts(book)
    assert counts.loc["FCCL", [NOT_TESTABLE, ledger.OPEN]].tolist() == [
        1,
        len(papers.claims_of("FCCL")) - 2,
    ]
    assert counts.loc[ledger.OURS, BEHIND] == 1 and counts.to_numpy().sum() == len(book)
    assert ledger.in_words(book.loc[["extra-01", "fccl-05", "fccl-04"]]) == (
        "1 behind, 1 not testable here, 1 open"
    )
    assert papers.claims("FCCL", folder=tmp_path).equals(book[book["paper"] == "FCCL"])
    assert list(papers.claims("ours", folder=tmp_path)["values"]) == [[-2.0, -2.1]]
    with pytest.raises(SettingError, match="did you mean 'FCCL"):
        papers.claims("FCLL", folder=tmp_path)


def test_a_claim_in_two_notebooks_is_refused(tmp_path):
    for name in ("01_x.ipynb", "01b_x.ipynb"):
        notebook_with(measured_claims(), tmp_path / name)
    with pytest.raises(StorageError, match=r"fccl-01 is measured twice[\s\S]*01b_x.*notebook 01\b"):
        papers.claims(folder=tmp_path)


def test_a_claim_that_something_does_not_matter_is_judged_so(book):
    measured = book[(book["paper"] != ledger.OURS) & (book["values"].map(len) > 0)]
    equal = {c["id"] for paper in printed.PAPERS for c in papers.claims_of(paper) if "equal" in c}
    assert set(measured.index[(measured["claimed"] == 0)]) == equal & set(measured.index)


def judged(*lines):
    book = pd.DataFrame(lines, columns=["verdict", "p"])
    return ledger.expected_false(book)


def test_how_many_directions_chance_may_have_made_by_hand():
    """Benjamini and Hochberg: of m = 5 claims, the largest p that is named has the rank 3."""
    lines = [
        (TOO_CLOSE, 0.20),
        (AHEAD, 0.001),
        ("behind by less than a point", 0.03),
        (NO_DIFFERENCE, 0.90),
        ("ahead by less than a point", 0.02),
    ]
    named, false = judged(*lines)
    assert named == 3 and false == pytest.approx(3 * 0.03 * 5 / 3)
    others = [(HOLDS, 0.0), (NO_VERDICT, 0.001), ("not testable here: X", 1.0), (ledger.OPEN, 1.0)]
    assert judged(*lines, *others) == (named, false)


def test_a_larger_p_may_lower_the_rate_of_a_smaller_one():
    rate = 0.045 * 4 / 4  # at rank 4, below 0.04 * 4 / 3 at rank 3
    lines = [(BEHIND, 0.001), (AHEAD, 0.002), (AHEAD, 0.04), (TOO_CLOSE, 0.045)]
    assert judged(*lines) == (3, pytest.approx(3 * rate))


def test_where_no_direction_is_named_none_is_false():
    assert judged((TOO_CLOSE, 0.3), (NO_DIFFERENCE, 0.9)) == (0, 0.0)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_records_and_the_printed_verdicts_of_a_notebook_agree(path):
    """The validation compares the printed lines alone: records that are older are noticed here."""
    content = json.loads(path.read_text(encoding="utf-8"))
    cells = [c for c in content["cells"] if "claims" in c["metadata"].get("tags", [])]
    outputs = [o for c in cells for o in c.get("outputs", [])]
    beside = [o for c in content["cells"] if c not in cells for o in c.get("outputs", [])]
    judged = [(r, o) for o in beside for r in o.get("metadata", {}).get(RECORDS, [])]
    for record, output in judged:  # of teach.judge, where the evidence is
        said = "".join(output["data"]["text/plain"])
        assert said.startswith(record["id"]) and record["verdict"] in said
    shown = [o.get("text", "") for o in outputs]
    shown += [o["data"].get("text/plain", "") for o in outputs if RECORDS in o.get("metadata", {})]
    text = "\n".join("".join(part) for part in shown)
    printed_ = re.findall(r"^([a-z0-9]+(?:-[a-z0-9]+)+) +(.+)$", text, flags=re.M)
    alone = {record["id"] for record, _ in judged}
    kept = [(r["id"], r["verdict"] + LIVE * r["live"])
            for r in records_in(content) if r["id"] not in alone]  # fmt: skip
    assert kept == printed_
    assert bool(kept) == bool(cells)


# --- numbers out of results


@pytest.fixture
def result():
    """Two clients of two domains; round 0 and three tested rounds."""
    like = next(iter(results.load_all().values()))
    rows = [
        (0, [[0.1, 0.2], [0.3, 0.4]]),
        (1, [[0.5, 0.6], [0.7, 0.8]]),
        (2, [[0.5, 0.2], [0.3, 0.9]]),
        (3, [[0.6, 0.1], [0.2, 0.8]]),
    ]
    history = {
        "clients": ["a", "b"],
        "domains": ["amazon", "webcam"],
        "tests": ["amazon", "webcam"],
        "accuracy": [{"moment": "end", "round": n, "epoch": None, "matrix": m} for n, m in rows],
    }
    return replace(like, history=history)


@pytest.mark.parametrize(
    "domain, options, expected",
    [
        ("", {}, 70),
        ("amazon", {}, 60),
        ("webcam", {}, 80),
        ("", {"elsewhere": True}, 15),
        ("amazon", {"elsewhere": True}, 10),
        ("amazon", {"last": 2}, 55),
        ("", {"before": True}, 25),
        ("dslr", {}, None),
        ("amazon", {"last": 3, "elsewhere": True}, 30),
    ],
)
def test_an_accuracy_is_read_from_the_matrix(result, domain, options, expected):
    found = tables.accuracy(result, domain, **options)
    assert found == (None if expected is None else pytest.approx(expected))


def test_only_a_papers_own_setting_meets_its_numbers(made):
    cells = made.cells
    met = cells[cells["setting"] == PAPER]
    assert set(met["verdict"]) <= {AGREES, "above", "below", "open", ONE} and len(met) > 15
    assert ((met["verdict"] == ONE) == (met["values"].map(len) == 1)).all()
    far = met[met["values"].map(len) > 1]
    gap = far["values"].map(statistics.fmean) - far["likely"]
    assert (gap[far["verdict"] == "above"] > 0).all() and (gap[far["verdict"] == "below"] < 0).all()
    assert (gap[far["verdict"] == AGREES].abs() < 2).all()
    others = cells[cells["setting"].isin([STAND_IN, REDUCED])]
    assert set(others["verdict"]) == {NEITHER}


def test_names_of_rows_and_columns():
    table = papers.published_table("FedLGD", "1")
    assert table.attrs["rows"][:2] == ["FedAvg (ResNet18)", "FedAvg (ConvNet)"]
    assert len(papers.columns_of(table, "IPC=10")) == 6
    assert papers.columns_of(table, "MNIST IPC=10") == ["MNIST IPC=10"]
    table = papers.published_table("FCCL+", "VIII")
    assert table.attrs["rows"] == list(table["method"])
    assert len(papers.columns_of(table, "Office31")) == 5
    assert papers.columns_of(table) == table.attrs["printed"]
    with pytest.raises(SettingError, match="did you mean 'Digits'"):
        papers.columns_of(table, "Digit")


# --- settings, differences, commands


def run_named(made, text):
    return next(run for run in made.runs if text in run.name)


def test_the_setting_is_that_of_the_run_and_its_data(made, result):
    paper = run_named(made, "RepShare 1, MNIST: IL")
    real = replace(result, scenario={**result.scenario, "stand_in": False})
    other = replace(result, scenario={**result.scenario, "stand_in": True})
    assert tables._setting(paper, [real]) == PAPER
    assert tables._setting(paper, [real, other]) == STAND_IN
    assert tables._setting(run_named(made, "FCCL+ XII, digits-partial"), [real]) == STAND_IN
    assert tables._setting(run_named(made, "Fashion-MNIST, smaller"), [real]) == REDUCED


def test_what_differs_follows_from_recipe_and_manifest(made):
    (name, said), *_ = made.differences("FedCSD", "II").items()
    assert name == "FedCSD II, smaller" and "rounds 12 (100)" in said
    assert "lr the best of five for each method (0.1)" in said
    assert "mu 0.5" not in said and "eval_every" not in said
    said = made.differences("RepShare", "1")
    assert said["RepShare 1, MNIST, centralized"] == tables.NOTHING
    assert "start_from client (server)" in said["RepShare 1, MNIST, as the author's code"]
    said = made.differences("FCCL+", "XII-inter")["FCCL+ XII, smaller"]
    assert "scenario digits-partial (digits)" in said and "scenario.public " not in said
    assert "mean of the last 1 tested rounds (3)" in said  # FCCL+ Sec. 4.1


def test_no_value_that_differs_from_the_papers_is_left_unsaid(made):
    """Of every run beside a table: settings, images and the method's parameters, one by one."""
    planned = {
        (r.paper, r.row, r.column, r.method): r for r in made.runs if r.manifest == queue.MANIFEST
    }
    seen = 0
    for run in made.runs:
        twin = planned.get((run.paper, run.row, run.column, run.method))
        home = run.instead_of or run.recipe.scenario
        if run.manifest == queue.MANIFEST or twin is None or twin.recipe.scenario != home:
            continue
        said = "; ".join(tables.differs(run, twin))
        theirs = twin.recipe.values()
        for key in ("rounds", "models", "lr", f"{run.method}.lambda_", f"{run.method}.draw"):
            value = run.recipe.values().get(key)
            if value != theirs.get(key, value):
                seen += 1
                assert f"{key.rpartition('.')[2]} " in said, (run.name, key)
    assert seen > 20


def test_every_command_finds_the_runs_of_its_cell(made):
    """`only` picks one row and column of the manifest, with all its seeds."""
    names, seeds = {}, {}
    for run in made.runs:
        names.setdefault(run.manifest, []).append(run.name)
        seeds.setdefault(run.table, set()).add(run.seed)
    for cell in made.cells.drop_duplicates("command").itertuples():
        if cell.command != tables.NO_RUN:
            only = re.search(r'only="(.*?)"', cell.command)[1]
            smaller = "manifest=data/measured.toml" in cell.command
            found = [n for n in names[tables.MEASURED if smaller else queue.MANIFEST] if only in n]
            assert found == [f"{only} {seed}" for seed in sorted(seeds[cell.run])], only
            assert ("results=build/again" in cell.command) == (cell.setting != OPEN)


# --- files that come and go


@pytest.fixture
def some(tmp_path, made):
    """The results of RepShare's MNIST column alone, in a folder of their own."""
    runs = [run for run in made.runs if run.name.startswith("RepShare 1, MNIST: IL")]
    for run in runs:
        results.save_result(made.found[run.path(made.folder)], run.path(tmp_path))
    manifest = tmp_path / "queue.toml"
    text = queue.MANIFEST.read_text(encoding="utf-8")
    table = re.search(r'\[\[table\]\]\nname = "RepShare 1, MNIST"\n.*?\n\]\n(?=\n)', text, re.S)
    manifest.write_text(table[0], encoding="utf-8")
    return tmp_path, runs, lambda: tables.build(tmp_path, [manifest])


def cells_of(made) -> dict:
    cells = made.cells[made.cells["table"].eq("1") & made.cells["paper"].eq("RepShare")]
    return {(c.row, c.column): (c.setting, c.measured, c.seeds) for c in cells.itertuples()}


def test_deleting_a_result_changes_its_cell_and_nothing_else(some):
    folder, runs, build = some
    before = cells_of(build())
    assert before["IL", "MNIST N=2"][0] == PAPER and before["FD", "MNIST N=2"][0] == OPEN
    runs[0].path(folder).unlink()
    made = build()
    after = cells_of(made)
    changed = [place for place in before if before[place] != after[place]]
    assert changed == [("IL", "MNIST N=2")] and made.faults == ()
    assert after["IL", "MNIST N=2"][2] == "1, 2"


def cells_at(made, row, column):
    cells = made.cells[(made.cells["row"] == row) & (made.cells["column"] == column)]
    return cells[cells["paper"] == "RepShare"].itertuples()


def test_other_images_meet_no_printed_number(some):
    folder, runs, build = some
    (real,) = cells_at(build(), "IL", "MNIST N=2")
    for run in runs:
        found = results.load_result(run.path(folder))
        other = replace(found, scenario={**found.scenario, "stand_in": True})
        results.save_result(other, run.path(folder))
    (told,) = cells_at(build(), "IL", "MNIST N=2")
    assert (real.setting, real.verdict != NEITHER) == (PAPER, True)
    assert (told.setting, told.verdict, told.values) == (STAND_IN, NEITHER, real.values)


def spoil(kind, runs, folder):
    """Damage the result of runs[0]; returns a word that must be said."""
    path = runs[0].path(folder)
    if kind == "cut":
        path.write_text(path.read_text()[:500])
        return "is damaged"
    if kind == "duplicate":
        shutil.copy(runs[1].path(folder), path)
        return "duplicate of"
    value = json.loads(path.read_text())
    if kind == "foreign":
        value["seed"] = 7
        save_json(path, value)
        return "foreign: it belongs to"
    value["settings"]["lr"] = 0.5
    save_json(path, value)
    return "of other settings"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cut", "duplicate", "foreign", "wrong"])
def test_a_bad_file_is_named_and_its_run_is_open(some, kind):
    folder, runs, build = some
    before = cells_of(build())
    words = spoil(kind, runs, folder)
    made = build()
    (fault,) = made.faults
    assert words in fault and fault.startswith(str(runs[0].path("")))
    after = cells_of(made)
    assert [place for place in before if before[place] != after[place]] == [("IL", "MNIST N=2")]


# --- misprints


def test_every_slip_that_arithmetic_finds_is_noted():
    again, known = papers.recomputed(), papers.misprints()
    assert len(again) > 300
    rows = set(zip(known["paper"], known["table"], known["row"], strict=True))
    for slip in again[again["off"].abs() > 1].itertuples():
        assert (slip.paper, slip.table, slip.row) in rows, slip


def test_likely_averages_and_differences_are_what_arithmetic_gives():
    """Where the likely number is an average or a difference, it is the computed one."""
    again = papers.recomputed().set_index(["paper", "table", "row", "column"])
    computed = 0
    for note in papers.misprints().itertuples():
        place = (note.paper, note.table, note.row, note.column)
        if place in again.index and note.table != "X-inter" and note.likely != "unknown":
            values = again.loc[[place], "computed"]
            unit = 0.1 if note.paper == "FedLGD" else 0.01
            assert (values - note.likely).abs().min() <= 0.6 * unit, place
            computed += 1
    assert computed >= 12


def test_misprints_reach_the_cells():
    cells = printed.accuracies().set_index(["paper", "table", "row", "column"])
    cell = cells.loc[("FedLGD", "1", "FedProto (ConvNet)", "Average IPC=10")]
    assert (cell["printed"], cell["likely"]) == (668.0, 66.8)
