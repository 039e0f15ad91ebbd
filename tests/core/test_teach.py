"""What a cell of a lesson calls: parameters that are checked, guards that notice, records kept."""

import json
import types
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
import torch
from support.federations import tiny_scenario

from fedtutor import compare, tasks, teach
from fedtutor.difference import Difference
from fedtutor.errors import FedtutorError, SettingError
from fedtutor.experiments import recipes
from fedtutor.papers.verdicts import records_in
from fedtutor.scenarios import Scenario

WRITTEN = {
    "profile": "quick",
    "scenario": None,
    "seeds": [0, 1, 2],
    "methods": ["solo", "fedavg"],
    "device": "auto",
    "overrides": {},
}
OWN_WORDS = "parameters of your own"


@pytest.fixture(autouse=True)
def a_new_kernel(monkeypatch, tmp_path, two_threads):
    """No lesson has begun, nothing is asked of it, and nothing is written to the project."""
    for name in ("FEDTUTOR_VALIDATE", "FEDTUTOR_RECORD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(teach, "_lesson", None)
    monkeypatch.setattr(teach, "MEASURED", tmp_path)
    monkeypatch.setattr(tasks, "_here", {})
    width = pd.get_option("display.max_colwidth")
    yield
    pd.set_option("display.max_colwidth", width)


@pytest.fixture
def validation(monkeypatch):
    monkeypatch.setenv("FEDTUTOR_VALIDATE", "1")


def start(names=None, **changes) -> teach.Lesson:
    return teach.start(
        {**WRITTEN, **changes} if names is None else names,
        lesson="99_tiny",
        recipe="start",
        seeds=[0, 1, 2],
        methods=["solo", "fedavg"],
    )


@pytest.fixture
def cell(shell):
    """Call something as a notebook's cell does: -> the cell, as it stands in the file."""
    from IPython.utils.capture import capture_output

    def run(call, *given, **options) -> dict:
        with capture_output() as captured:
            call(*given, **options)
        outputs = [
            {"output_type": "display_data", "data": o.data, "metadata": o.metadata}
            for o in captured.outputs
        ]
        return json.loads(json.dumps({"cell_type": "code", "outputs": outputs}))

    return run


# --- start


def test_a_lesson_as_it_is_written(capsys):
    lesson = start()
    recipe = recipes.load("start", profile="quick")
    assert (lesson.settings, lesson.scenario) == (recipe.settings, recipe.scenario)
    assert (lesson.seeds, lesson.methods) == ([0, 1, 2], ["solo", "fedavg"])
    assert lesson.device in ("cpu", "cuda") and lesson.as_written
    said = capsys.readouterr().out
    assert "profile quick, digits-mini, seeds 0, 1, 2" in said and OWN_WORDS not in said


@pytest.mark.parametrize("name", WRITTEN)
def test_a_parameter_that_is_missing_is_named_with_all_six(name):
    names = {key: value for key, value in WRITTEN.items() if key != name}
    with pytest.raises(SettingError, match=f"parameter '{name}' is missing") as error:
        start(names)
    assert all(key in error.value.do for key in WRITTEN)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("seed", "seeds"), ("method", "methods"), ("Profile", "profile"), ("overides", "overrides")],
)
def test_a_parameter_that_is_misspelt_gets_the_nearest_name(wrong, right):
    with pytest.raises(SettingError, match=f"unknown parameter '{wrong}'") as error:
        start(**{wrong: [0]})
    assert f"did you mean '{right}'" in error.value.do
    assert all(key in error.value.do for key in WRITTEN)


@pytest.mark.parametrize(
    ("change", "right"),
    [
        ({"profile": "quik"}, "quick"),
        ({"profile": None}, "quick, paper|paper, quick"),
        ({"seeds": []}, "whole numbers"),
        ({"seeds": [1, 1]}, "different"),
        ({"seeds": [-1]}, "from 0"),
        ({"seeds": [0.5]}, "whole numbers"),
        ({"seeds": True}, "whole numbers"),
        ({"seeds": "[0, 1"}, "whole numbers"),
        ({"methods": ["fedavgg"]}, "fedavg"),
        ({"methods": ["solo", "solo"]}, "once"),
        ({"methods": []}, "list of names"),
        ({"device": "gpu"}, "cuda"),
        ({"overrides": {"round": 3}}, "rounds"),
        ({"overrides": {"rounds": "three"}}, "valid integer"),
        ({"overrides": "rounds"}, "table"),
        ({"scenario": 3}, "valid string"),
    ],
    ids=str,
)
def test_a_wrong_value_is_one_error_that_names_the_right_ones(change, right):
    with pytest.raises(SettingError) as error:
        start(**change)
    assert any(word in error.value.do for word in right.split("|"))
    assert teach._lesson is None  # a lesson with wrong parameters has not begun


def test_a_scenario_that_is_misspelt_is_noticed_at_once():
    with pytest.raises(SettingError, match="digits-mni") as error:
        start(scenario="digits-mni")
    assert "digits-mini" in error.value.do


def test_the_texts_of_papermill_are_read(capsys):
    texts = {"seeds": "[0, 1, 2]", "methods": '["solo", "fedavg"]', "overrides": "{}"}
    assert start(**texts, scenario="").as_written
    assert OWN_WORDS not in capsys.readouterr().out
    lesson = start(seeds="[3]", methods='["solo"]', overrides='{"rounds": 3}', scenario="None")
    assert (lesson.seeds, lesson.methods, lesson.settings.rounds) == ([3], ["solo"], 3)
    assert start(seeds="4", methods="solo").seeds == [4]


@pytest.mark.parametrize(
    "change",
    [
        {"profile": "paper"},
        {"scenario": "digits-mini"},  # the recipe's own, by name
        {"seeds": [0, 1]},
        {"seeds": [2, 1, 0]},
        {"methods": ["fedavg"]},
        {"device": "cpu"},
        {"overrides": {"rounds": 2}},
    ],
    ids=str,
)
def test_a_reader_hears_that_the_text_is_about_other_parameters(change, capsys, validation):
    lesson = start(**change)
    said = capsys.readouterr().out
    assert not lesson.as_written and not lesson.strict
    assert OWN_WORDS in said and "seeds 0, 1, 2" in said.splitlines()[-1]


def test_overrides_that_the_text_has_are_as_written(capsys):
    def lesson(overrides):
        names = {**WRITTEN, "overrides": overrides}
        return teach.start(names, lesson="99_tiny", recipe="start", seeds=[0, 1, 2],
                           methods=["solo", "fedavg"], overrides={"rounds": 3})  # fmt: skip

    assert lesson({"rounds": 3}).as_written and lesson('{"rounds": 3}').settings.rounds == 3
    assert OWN_WORDS not in capsys.readouterr().out
    assert not lesson({}).as_written


def test_the_start_cell_can_be_run_twice_among_the_readers_own_names(capsys):
    names = dict(WRITTEN)
    names["lesson"] = start(names)
    names |= {"mine": 3, "table": [1, 2], "seeds": [5]}  # what later cells have left
    assert start(names).seeds == [5] and OWN_WORDS in capsys.readouterr().out
    names["seeds"] = "none"
    with pytest.raises(SettingError, match="seeds = 'none'"):
        start(names)


def test_what_the_start_cell_imports_and_the_kernel_keeps_is_no_parameter():
    kernel = {"In": ["", "x"], "Out": {}, "_": "", "_i1": "x", "__name__": "__main__", "_dh": [1]}
    imported = {"torch": torch, "compare": compare, "teach": teach, "Difference": Difference}
    own = {"seed_of": lambda text: 0, "thing": types.SimpleNamespace()}
    assert start({**kernel, **imported, **own, **WRITTEN}).as_written


# --- check


SAME = {
    "numbers": (0.1 + 0.2, 0.3),
    "tensor and array": (torch.tensor([1.0, 2.0]), np.array([1.0, 2.0])),
    "tensor and list": (torch.tensor([1.0, 2.0]), [1, 2]),
    "with a gradient": (torch.ones(2, requires_grad=True), [1.0, 1.0]),
    "float32 and float64": (torch.tensor(0.1), 0.1),
    "float32 of numpy": (np.float32(0.1), 0.1),
    "nested": ({"a": [torch.ones(2), 1], "b": (2.0, [3])}, {"b": [2, (3.0,)], "a": ([1, 1], 1.0)}),
    "booleans": ([True, False], torch.tensor([True, False])),
    "large": (1e9, 1e9 + 100),
}


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_what_agrees_is_one_line(pair, capsys):
    assert teach.check("Eq. 5", *pair) is None
    assert capsys.readouterr().out.split() == ["Eq.", "5", "within", "1e-6"]


OTHER = {
    "value": (0.3, 0.301),
    "one entry": (torch.tensor([1.0, 2.0]), [1.0, 2.00001]),
    "sign": (1.0, -1.0),
    "shape": (torch.ones(2), torch.ones(2, 1)),
    "broadcast": (torch.ones(3), 1.0),
    "shorter": ([1.0, 2.0], [1.0, 2.0, 3.0]),
    "deep inside": ({"a": [torch.ones(2), {"b": 1.0}]}, {"a": [torch.ones(2), {"b": 2.0}]}),
    "less": ({"a": 1.0}, {"a": 1.0, "b": 2.0}),
    "more": ({"a": 1.0, "b": 2.0}, {"a": 1.0}),
    "names": ({"a": 1.0}, {"b": 1.0}),
    "structure": ({"a": 1.0}, [1.0]),
    "fewer parts": ([torch.ones(2)], [torch.ones(2), torch.ones(2)]),
    "nan": (float("nan"), float("nan")),
    "nan here": (torch.tensor([1.0, float("nan")]), [1.0, 1.0]),
    "infinite": (float("inf"), 1e300),
    "booleans": (torch.tensor([True, False]), [True, True]),
    "boolean and number": (True, 1),
    "text": ("1", 1.0),
}


@pytest.mark.parametrize("tolerance", [1e-6, 0])
@pytest.mark.parametrize("pair", OTHER.values(), ids=OTHER)
def test_what_does_not_agree_is_an_error_of_ours(pair, tolerance, capsys):
    for ours, reference in (pair, pair[::-1]):
        with pytest.raises(teach.CheckError, match=r"'Eq\. 5' failed"):
            teach.check("Eq. 5", ours, reference, tolerance=tolerance)
    assert not capsys.readouterr().out
    assert issubclass(teach.CheckError, FedtutorError)


def test_a_tolerance_is_what_it_says(capsys):
    teach.check("near", 2.0, 2.001, tolerance=1e-2)
    assert "within 0.01" in capsys.readouterr().out
    with pytest.raises(teach.CheckError):
        teach.check("near", 2.0, 2.1, tolerance=1e-2)
    teach.check("a share", 0.0, 0.009, tolerance=1e-2)  # absolute below 1


def test_without_tolerance_only_equal_bits_agree(capsys):
    one = torch.tensor([0.1, 3.0])
    teach.check("bits", one, one.clone(), tolerance=0)
    assert capsys.readouterr().out.split() == ["bits", "equal"]
    teach.check("counts", [3, 4], torch.tensor([3, 4]), tolerance=0)
    teach.check("signs", one > 1, [False, True], tolerance=0)
    for other in (one + torch.tensor([1e-8, 0]), torch.tensor([0.1, 3.0000002])):
        with pytest.raises(teach.CheckError):
            teach.check("bits", one, other, tolerance=0)
    with pytest.raises(teach.CheckError):
        teach.check("last digit", 0.1 + 0.2, 0.3, tolerance=0)
    with pytest.raises(teach.CheckError):
        teach.check("counts", [3, 4], [3, 5], tolerance=0)


@pytest.mark.parametrize("nothing", [[], {}, torch.zeros(0), {"a": []}], ids=str)
def test_a_check_of_nothing_is_no_check(nothing):
    with pytest.raises(teach.CheckError):
        teach.check("empty", nothing, deepcopy(nothing))


def test_numbers_of_python_have_all_their_digits():
    teach.check("list and array", [0.1, 0.2], np.array([0.1, 0.2]), tolerance=0)
    with pytest.raises(teach.CheckError):
        teach.check("tenth digit", 1.0, 1.0 + 1e-10, tolerance=1e-12)


@pytest.mark.parametrize("ours", [None, {1, 2}], ids=str)
def test_what_is_no_number_is_an_error_of_ours(ours):
    """A gradient that nobody computed is None."""
    with pytest.raises(teach.CheckError):
        teach.check("gradient", ours, torch.ones(1))


def test_a_list_of_losses_is_a_list_of_numbers():
    teach.check("losses", [torch.tensor(1.0), torch.tensor(2.0)], [1.0, 2.0])
    teach.check("rows", [[1, 2], [3, 4]], torch.tensor([[1, 2], [3, 4]]))
    with pytest.raises(teach.CheckError):
        teach.check("losses", [torch.tensor(1.0), torch.tensor(2.0)], [1.0, 2.1])


# --- expect


def lead(mean=20.0, half=0.8, **about) -> Difference:
    """Three seeds with a 95 % interval of mean ± half."""
    step = half * 3**0.5 / 4.302653
    return Difference((mean - step, mean, mean + step), "fedavg", "solo", "other domains", **about)


RIGHT = {
    "verdict": (lead(), "ahead", {}),
    "verdict and number": (lead(), "ahead", {"about": 20}),
    "within half": (lead(), "ahead", {"about": 20.75}),
    "below": (lead(-20.0), "behind", {"about": 20}),
    "a little ahead": (lead(0.5, 0.3), "ahead", {}),
    "exactly so": (lead(0.5, 0.3), "ahead by less than a point", {}),
    "small": (lead(0.1, 0.5), "no difference", {}),
    "open": (lead(0.5, 3.0), "too close", {}),
    "other words": (lead(words=("rises", "falls")), "rises", {}),
    "number alone": (10.9, "", {"about": 10, "of": "classes"}),
    "number below": (-9.2, "", {"about": 10, "of": "classes"}),
    "tensor": (torch.tensor(10.5), "", {"about": 10, "of": "classes"}),
}
WRONG = {
    "other side": (lead(), "behind", {}),
    "behind": (lead(-20.0), "ahead", {"about": 20}),
    "less than a point": (lead(0.5, 0.3), "behind", {}),
    "more than a point": (lead(), "ahead by less than a point", {}),
    "open": (lead(0.5, 3.0), "ahead", {}),
    "open is not small": (lead(0.5, 3.0), "no difference", {}),
    "small is not open": (lead(0.1, 0.5), "too close", {}),
    "number": (lead(), "ahead", {"about": 20.85}),
    "at most a point": (lead(half=2.0), "ahead", {"about": 21.2}),
    "number, verdict right": (lead(), "ahead", {"about": 2}),
    "number alone": (11.1, "", {"about": 10, "of": "classes"}),
    "smaller number": (8.9, "", {"about": 10, "of": "classes"}),
    "nan": (float("nan"), "", {"about": 10, "of": "classes"}),
}


@pytest.mark.parametrize(("found", "says", "more"), RIGHT.values(), ids=RIGHT)
def test_a_sentence_that_is_true_only_shows_the_number(found, says, more, capsys, validation):
    start()
    capsys.readouterr()
    teach.expect(found, says, **more)
    line = " ".join(capsys.readouterr().out.split())
    wanted = str(found) if isinstance(found, Difference) else f"classes: {float(found):.3g}"
    assert line == wanted


@pytest.mark.parametrize(("found", "says", "more"), WRONG.values(), ids=WRONG)
def test_a_sentence_that_is_no_longer_true_fails_in_validation(found, says, more, validation):
    start()
    with pytest.raises(teach.ExpectationError) as error:
        teach.expect(found, says, **more)
    assert says in str(error.value) and str(found) in str(error.value)
    assert f"about {more['about']}" in str(error.value) if "about" in more else True
    assert error.value.where == "99_tiny" and isinstance(error.value, AssertionError)


@pytest.mark.parametrize(("found", "says", "more"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("who", ["reader", "own parameters in validation", "no lesson"])
def test_no_reader_is_stopped_by_it(found, says, more, who, capsys, monkeypatch):
    if who != "reader":
        monkeypatch.setenv("FEDTUTOR_VALIDATE", "1")
    if who != "no lesson":
        start(**({"seeds": [7]} if "own" in who else {}))
    capsys.readouterr()
    teach.expect(found, says, **more)
    *_, remark = capsys.readouterr().out.splitlines()
    assert "The text says: " in remark and says in remark and "different" in remark
    assert ("about" in more) == (f"about {more.get('about')}" in remark)


def test_a_remark_joins_its_words(capsys):
    teach.expect(lead(), "no difference", about=0)
    assert "no difference, about 0" in capsys.readouterr().out


def test_about_knows_the_unit():
    """Half a point is nothing in percent, and everything in nats."""
    with pytest.raises(teach.ExpectationError):
        strictly(lead(0.02, 0.001, unit="nats", margin=None), "ahead", about=0.4)


@pytest.mark.parametrize("found", [lead(), 3.0], ids=["difference", "number"])
def test_a_guard_that_says_nothing_is_no_guard(found):
    with pytest.raises(FedtutorError):
        strictly(found)


def test_a_verdict_of_a_plain_number_is_a_mistake():
    with pytest.raises(FedtutorError):
        strictly(3.0, "behind", of="classes")


def strictly(found, says="", **more):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDTUTOR_VALIDATE", "1")
        start()
        teach.expect(found, says, **more)


# --- judge


def judged(cell, *given, **options) -> tuple[dict, str]:
    """(its record, what it shows)."""
    made = cell(teach.judge, *given, **options)
    (record,) = records_in({"cells": [made]})
    assert "application" not in str(made["outputs"][0]["data"].keys())  # validation compares these
    return record, made["outputs"][0]["data"]["text/plain"]


def test_a_claim_is_shown_with_verdict_and_interval_and_leaves_its_record(cell):
    start()
    runs = lead(3.0, 0.5, setting="digits-mini, 6 rounds, seeds 0, 1, 2", stand_in=True)
    record, text = judged(cell, "fccl-01", runs)
    assert record["verdict"] == "ahead" and record["claim"] in text and record["where"] in text
    assert "ahead here, with other images: +3.0 [+2.5, +3.5] points (3 seeds)" in text
    assert record["values"] == pytest.approx(list(runs.values), rel=1e-4)
    assert (record["unit"], record["claimed"], record["exact"]) == ("points", 1, False)
    assert "the paper's +2.37" in text and "digits-mini, 6 rounds" in record["setting"]
    record, text = judged(cell, "fccl-01", lead(-3.0, 0.5))
    assert record["verdict"] == "behind" and "behind here" in text


def test_a_claim_is_judged_without_a_lesson_and_outside_a_notebook(capsys, monkeypatch):
    monkeypatch.setattr("IPython.get_ipython", lambda: None)
    teach.judge("fccl-01", lead(3.0, 0.5))
    said = capsys.readouterr().out
    assert said.startswith("fccl-01  ") and "ahead here" in said and "[+2.5, +3.5]" in said


def test_each_cell_leaves_the_record_of_its_own_claim(cell):
    start()
    cells = [cell(teach.judge, "fccl-01", lead()), cell(teach.judge, "fcclplus-07b", lead(0.0))]
    cells.append(cell(teach.judge, "fccl-01", lead(-20.0)))  # run again below
    ids = [(r["id"], r["verdict"]) for r in records_in({"cells": cells})]
    assert ids[0] == ("fccl-01", "ahead") and ids[2] == ("fccl-01", "behind")
    assert ids[1][0] == "fcclplus-07b"


def test_the_weakest_of_several_comparisons_decides(cell):
    several = {"solo": lead(20.0), "fedavg": lead(5.0, 0.5), "fedmd": lead(0.1, 3.0)}
    record, text = judged(cell, "fccl-01", several)
    assert record["verdict"] == "too close to call" and "+0.1 [-2.9, +3.1]" in text
    record, _ = judged(cell, "fccl-01", {n: several[n] for n in ("solo", "fedavg")})
    assert record["verdict"] == "ahead" and record["values"][1] == pytest.approx(5.0)


def test_a_claim_of_no_difference(cell):
    record, text = judged(cell, "fccl-10", lead(0.1, 0.5), claimed=0)
    assert record["claimed"] == 0 and record["verdict"] == "no difference that matters"
    assert "no difference that matters here" in text
    assert judged(cell, "fccl-10", lead(5.0), claimed=0)[0]["verdict"] == "ahead"


def test_a_fact_without_chance(cell):
    record, text = judged(cell, "fccl-22", 3, exact=True)
    assert (record["verdict"], record["exact"], record["values"]) == ("holds", True, [3.0])
    assert "holds here: exact" in text
    assert judged(cell, "fccl-22", -3, exact=True)[0]["verdict"] == "does not hold"


def test_a_claim_that_our_setting_cannot_tell_says_why(cell):
    record, text = judged(cell, "fcclplus-46", lead())
    assert record["verdict"] == "no verdict" and record["because"] in text
    assert ".." not in text


def test_a_claim_that_does_not_exist_gets_the_nearest_name():
    with pytest.raises(SettingError, match="unknown claim 'fcl-01'") as error:
        teach.judge("fcl-01", lead())
    assert "'fccl-01'" in error.value.do


def test_no_comparison_is_an_error_of_ours():
    with pytest.raises(FedtutorError):
        teach.judge("fccl-01", {})


# --- differences


def test_columns_of_a_table_are_subtracted_seed_by_seed():
    table = pd.DataFrame({"a": [3.0, 5.0, np.nan], "b": [1.0, 2.0, 3.0]}, index=[0, 1, 2])
    found = teach.difference(table, "a", "b", unit="nats", margin=None, on="own domain")
    assert (found.values, found.a, found.b) == ((2.0, 3.0), "a", "b")
    assert (found.unit, found.margin, found.on) == ("nats", None, "own domain")


# --- again


TINY = tiny_scenario()
FAST = {"scenario": TINY, "rounds": 2, "batch_size": 8, "lr": 0.05, "models": ["linear"], "jobs": 1}


def runs_of(path, monkeypatch, **options):
    """A comparison whose runs are read from the committed file."""
    monkeypatch.setattr(tasks, "_here", {})
    given = {"seeds": [0, 1], **FAST, "recorded": path, **options}
    return compare(["fedavg", "solo"], **given)


@pytest.fixture
def committed(monkeypatch, tmp_path):
    path = tmp_path / "99_tiny.jsonl"
    with monkeypatch.context() as patch:
        patch.setenv("FEDTUTOR_RECORD", "1")
        runs_of(path, patch)
    return path


def worse(path, seed: int, by: float) -> None:
    """Other accuracies in the record of fedavg."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if (line["method"], line["seed"]) == ("fedavg", seed):
            last = line["history"]["accuracy"][-1]
            last["matrix"] = [[value - by for value in row] for row in last["matrix"]]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_the_first_seed_comes_to_the_same_again(committed, monkeypatch, capsys, validation):
    lesson = start()
    assert lesson.record == committed
    capsys.readouterr()
    teach.again(runs_of(committed, monkeypatch))
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("fedavg, seed 0: trained") and second.startswith("solo, seed 0: ")
    teach.again(runs_of(committed, monkeypatch), seed=1)
    assert "fedavg, seed 1" in capsys.readouterr().out


def test_a_record_that_was_altered_is_noticed(committed, monkeypatch, capsys):
    worse(committed, seed=0, by=0.1)
    runs = runs_of(committed, monkeypatch)
    start()
    teach.again(runs)
    assert "fedavg: own domain is " in capsys.readouterr().out
    monkeypatch.setenv("FEDTUTOR_VALIDATE", "1")
    with pytest.raises(teach.ExpectationError, match=r"fedavg: own domain is .* in the record"):
        teach.again(runs)
    teach.again(runs, seed=1)


def test_what_disagrees_is_not_called_the_same(committed, monkeypatch, capsys):
    worse(committed, seed=0, by=0.1)
    teach.again(runs_of(committed, monkeypatch))
    assert "fedavg, seed 0: trained here again, as in the record" not in capsys.readouterr().out


def test_a_run_that_diverged_is_not_trained_again(monkeypatch, tmp_path, capsys):
    teach.again(runs_of(tmp_path / "none.jsonl", monkeypatch, lr=1e38))
    assert not capsys.readouterr().out


def test_a_seed_that_was_not_compared_cannot_be_trained_again(committed, monkeypatch):
    with pytest.raises(FedtutorError):
        teach.again(runs_of(committed, monkeypatch), seed=9)


def test_a_committed_run_of_a_recipe_is_trained_on_its_images(monkeypatch):
    """Such a comparison has built no scenario yet."""
    recipe, asked = recipes.load("fccl", profile="quick"), []
    runs = compare(["fedmd"], settings=recipe, seeds=[0])

    def train(task, *rest):
        asked.append(task.scenario)
        return deepcopy(runs.pairs[0][1])

    monkeypatch.setattr(tasks, "train", train)
    teach.again(runs)
    assert [type(scenario) for scenario in asked] == [Scenario]
    assert asked[0].name == recipe.scenario


# --- question


CHOICES = {"It rises.": "No: look at $w^t$.\n", "It falls.": "  Yes, **because** it is shorter."}


def test_a_question_unfolds_a_reply_for_each_choice(cell):
    (output,) = cell(teach.question, "What happens?", CHOICES)["outputs"]
    text = output["data"]["text/markdown"]
    assert text.startswith("**Ask yourself.** What happens?")
    parts = text.split("<details>")[1:]
    assert len(parts) == 2
    for part, (choice, reply) in zip(parts, CHOICES.items(), strict=True):
        assert part.startswith(f"<summary>{choice}</summary>\n\n{reply.strip()}\n\n</details>")
    plain = output["data"]["text/plain"]
    assert all(f"- {choice}" in plain for choice in CHOICES) and "because" not in plain


def test_a_question_in_a_script_is_printed(capsys, monkeypatch):
    monkeypatch.setattr("IPython.get_ipython", lambda: None)
    teach.question("What happens?", CHOICES)
    assert capsys.readouterr().out.splitlines() == [
        "Ask yourself. What happens?", "- It rises.", "- It falls."
    ]  # fmt: skip
