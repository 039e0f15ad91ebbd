"""Every value has a source; whatever is unknown, ill-typed or cut short is one clear error."""

import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtutor.errors import FedtutorError, SettingError
from fedtutor.experiments import recipes
from fedtutor.experiments.recipes import NOT_IN_RECIPE, PROFILES, RECIPES, SET_BY_YOU, load, named
from fedtutor.settings import FIELDS, Settings

SMALL = """
title = "Small"
paper = "FedCSD"

[scenario.name]
quick = "mnist-mini"
paper = "your-skew"
source = "ours"

[scenario_options.beta]
quick = 0.5
paper = 0.05
source = "Table I"

[scenario_options.partition]
quick = "dirichlet"
source = "Table I"

[settings.rounds]
quick = 3
paper = 100
source = "quick: ours, time; paper: Sec. 5"

[settings.models]
paper = ["resnet50"]
source = "Sec. 5"

[methods.fedavg]

[methods.fedprox.mu]
quick = 0.1
paper = 0.001
source = "Sec. 5"
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a recipe file where `load` looks for it."""
    monkeypatch.setattr(recipes, "RECIPES", tmp_path)

    def write(text=SMALL, *, name="small"):
        content = text if isinstance(text, bytes) else text.encode()
        (tmp_path / f"{name}.toml").write_bytes(content)
        return name

    return write


def change(old, new):
    assert old in SMALL
    return SMALL.replace(old, new, 1)


# --- the recipes that we ship


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", [path.stem for path in RECIPES.glob("*.toml")])
def test_a_shipped_recipe_loads_and_says_where_each_value_comes_from(name, profile):
    recipe = load(name, profile=profile)
    table = recipe.sources()
    assert list(table.columns) == ["setting", "value", "source"]
    assert set(table["setting"]) >= {*FIELDS, "scenario"} and table["source"].str.len().min() > 3
    assert json.loads(json.dumps(asdict(recipe), allow_nan=False)) == asdict(recipe)


def test_the_first_notebook_uses_the_settings_of_its_profile():
    quick, paper = (load("start", profile=profile) for profile in PROFILES)
    assert (quick.scenario, quick.settings.models) == ("digits-mini", ["small_cnn"])
    assert (paper.scenario, paper.settings.models) == ("digits", ["resnet12"])
    s = paper.settings
    assert (s.rounds, s.local_epochs, s.batch_size) == (40, 20, 64)
    assert (s.optimizer, s.lr, s.weight_decay) == ("adam", 1e-3, 1e-5)
    assert paper.methods["fedprox"]["mu"] == 0.01
    assert set(quick.methods) == {"solo", "central", "fedavg", "fedprox"}
    assert not quick.recompute


def test_the_recipe_of_fedcsd_has_the_papers_numbers():
    paper = load("fedcsd", profile="paper")
    s = paper.settings
    assert (paper.scenario, s.models, s.batch_size) == ("cifar100-skew", ["resnet50"], 64)
    assert (s.rounds, s.local_epochs, s.lr, s.momentum, s.weight_decay) == (100, 5, 0.1, 0.9, 1e-5)
    own = paper.methods["fedcsd"]
    assert (own["mu"], own["tau"], own["alpha"]) == (0.001, 10.0, 0.9)
    weights = {"fedprox": "mu", "moon": "mu", "fedgkd": "mu", "fedproto": "lambda_"}
    assert [paper.methods[m][key] for m, key in weights.items()] == [0.001, 1.0, 0.01, 1.0]
    office = load("fedcsd", profile="paper", scenario="office-caltech")
    assert (office.settings.models, office.settings.batch_size) == (["alexnet_bn"], 32)
    assert office.scenario_options["split"] == "fedcsd"
    assert (office.methods["fedcsd"]["mu"], office.methods["fedcsd"]["tau"]) == (0.5, 4.0)
    digits = load("fedcsd", profile="paper", scenario="femnist-skew")
    assert digits.settings.models == ["simple_cnn"] and digits.scenario_options["beta"] == 0.05
    assert digits.methods["fedcsd"] == own
    for profile in PROFILES:  # Fig. 1 and 7 begin with a network that is trained already
        long, before, local = (
            load("fedcsd", profile=profile, overrides=named("fedcsd", place, profile)[0]).settings
            for place in ("Fig. 1", "Fig. 1, before", "Fig. 7")
        )
        assert (long.rounds, long.local_epochs, long.observe) == (1, 50, ["local_epoch"])
        assert before.rounds >= 40 and before.local_epochs == local.local_epochs
        assert (local.rounds, local.observe) == (1, ["after_local"])
    assert paper.change({"scenario.beta": 5.0}).scenario_options["beta"] == 5.0
    for profile in PROFILES:  # every parameter of every method is there, with a source
        table = load("fedcsd", profile=profile).sources().set_index("setting")
        missing = [
            k
            for k in table.index[table["source"] == NOT_IN_RECIPE]
            if "." in k and not k.startswith("scenario.")
        ]
        assert missing == []


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", ["fccl", "fccl_plus"])
def test_a_papers_recipe_names_every_parameter_of_its_methods(name, profile):
    recipe = load(name, profile=profile)
    missing = {f"{m}.{k}" for m, given in recipe.methods.items() for k in given} - {*recipe.origins}
    assert not missing


def test_notebooks_01_and_02_share_their_quick_settings():
    fccl, plus = load("fccl", profile="quick"), load("fccl_plus", profile="quick")
    assert (fccl.scenario, fccl.scenario_options) == (plus.scenario, plus.scenario_options)
    assert fccl.settings == plus.settings
    shared = [name for name in plus.methods if name in fccl.methods]
    assert shared == ["solo", "fedmd", "feddf", "fedmatch", "rhfl", "fccl"]
    assert {*plus.methods} - {*shared} == {"fccl+", "ewc"}
    for name in shared:
        assert plus.methods[name] == fccl.methods[name]
    epochs = {given["pretrain_epochs"] for given in plus.methods.values()}
    assert epochs == {10}  # an equal budget


def test_the_recipe_of_repshare_has_the_papers_numbers():
    paper = load("repshare", profile="paper")
    s, own = paper.settings, paper.methods["repshare"]
    assert (paper.scenario, s.models, s.rounds, s.local_epochs) == ("mnist", ["lenet5"], 100, 1)
    assert (s.optimizer, s.lr, s.batch_size, s.eval_every) == ("adam", 1e-3, 32, 10)
    assert not s.common_init
    assert (paper.scenario_options["num_clients"], paper.scenario_options["private_size"]) == (
        10,
        1200,
    )
    assert (own["lambda_kd"], own["lambda_disc"], own["n_avg"]) == (10.0, 1.0, 10)
    assert (own["m_up"], own["m_down"], own["reading"]) == (1, 1, "paper")
    assert (own["exclude_self"], own["draw"]) == (True, "client")
    assert paper.methods["fd"]["lambda_"] == 10.0
    for scenario, network, size in (
        ("fashion-mnist", "resnet9", 6000),
        ("cifar10", "resnet18_repshare", 10000),
    ):
        other = load("repshare", profile="paper", scenario=scenario)
        assert (other.settings.models, other.settings.rounds) == ([network], 20)
        assert other.scenario_options["private_size"] == size
        assert other.methods == paper.methods
    assert set(paper.methods) == {"solo", "central", "fedavg", "fd", "repshare"}
    variant = {"repshare.reading": "code", "fedavg.start_from": "client", "scenario.num_clients": 2}
    assert paper.change(variant).methods["repshare"]["reading"] == "code"
    for profile in PROFILES:  # every parameter of every method is there, with a source
        table = load("repshare", profile=profile).sources().set_index("setting")
        missing = [
            k
            for k in table.index[table["source"] == NOT_IN_RECIPE]
            if "." in k and not k.startswith("scenario.")
        ]
        assert missing == []


def test_the_recipe_of_fedlgd_has_the_papers_numbers():
    paper = load("fedlgd", profile="paper")
    s, own = paper.settings, paper.methods["fedlgd"]
    assert (paper.scenario, s.models, s.rounds, s.local_epochs) == (
        "digits-five",
        ["convnet"],
        100,
        1,
    )
    assert (s.optimizer, s.lr, s.momentum, s.batch_size) == ("sgd", 0.01, 0.0, 32)
    assert (s.virtual_ipc, s.virtual_init, s.virtual_steps) == (50, "statistics", 10000)
    assert (own["lambda_"], own["selected"], own["every"], own["global_ipc"]) == (10.0, 10, 5, 10)
    assert (own["local_steps"], own["global_steps"]) == (100, 500)
    assert set(paper.methods) == {
        "fedavg",
        "fedprox",
        "fednova",
        "scaffold",
        "moon",
        "fedproto",
        "vhl",
        "fedlgd",
    }
    other = load("fedlgd", profile="paper", scenario="cifar10-c")
    assert (other.methods["fedlgd"]["lambda_"], other.settings.virtual_ipc) == (1.0, 50)
    retina = load("fedlgd", profile="paper", scenario="retina").settings
    assert (retina.lr, retina.virtual_ipc) == (0.001, 10)
    for profile in PROFILES:  # every parameter of every method is there, with a source
        table = load("fedlgd", profile=profile).sources().set_index("setting")
        missing = [
            k
            for k in table.index[table["source"] == NOT_IN_RECIPE]
            if "." in k and not k.startswith("scenario.")
        ]
        assert missing == []


# --- what load does


def test_a_recipe_is_resolved_for_one_profile(write):
    recipe = load(write(), profile="quick")
    assert recipe.title == "Small" and recipe.paper == "FedCSD"
    options = recipe.scenario_options
    assert (options["beta"], options["partition"]) == (0.5, "dirichlet")
    assert options["split_seed"] == "seed" and recipe.options(3)["split_seed"] == 3
    assert recipe.settings == Settings(rounds=3)  # models are left to the default
    assert recipe.methods["fedprox"]["mu"] == 0.1 and recipe.methods["fedavg"]
    paper = load("small", profile="paper")
    assert paper.settings == Settings(rounds=100, models=["resnet50"])
    assert paper.scenario_options == {"beta": 0.05}


def test_each_value_keeps_its_source(write):
    given_ = {"rounds": 4, "fedprox.mu": 0.3, "scenario.beta": 1.0}
    table = load(write(), profile="quick", overrides=given_).sources().set_index("setting")
    assert table.loc["scenario.partition", "source"] == "Table I"
    assert table.loc["models", "source"] == NOT_IN_RECIPE
    assert tuple(table.loc["scenario.split_seed"]) == ("seed", NOT_IN_RECIPE)
    for key, value in given_.items():
        assert tuple(table.loc[key]) == (value, SET_BY_YOU)


def test_overrides_win_and_a_whole_number_may_stand_for_a_number(write):
    overrides = {"lr": 1, "observe": ["after_local"], "recompute": True, "scenario.num_clients": 4}
    recipe = load(write(), profile="quick", overrides=overrides)
    assert recipe.settings.lr == 1.0 and type(recipe.settings.lr) is float
    assert recipe.settings.observe == ["after_local"] and recipe.recompute
    assert recipe.scenario_options["num_clients"] == 4
    assert recipe.overrides == {k: v for k, v in overrides.items() if k != "recompute"}
    assert load("small", profile="quick").settings.rounds == 3  # nothing is remembered


def test_an_override_may_name_a_method_that_the_recipe_leaves_out(write):
    text = SMALL.partition("[methods.fedprox.mu]")[0]
    recipe = load(write(text), profile="quick", overrides={"fedprox.mu": 1.0})
    assert recipe.methods["fedprox"]["mu"] == 1.0


def test_another_scenario_comes_without_the_options_of_the_recipe(write):
    recipe = load(write(), profile="quick", scenario="digits-mini")
    assert recipe.scenario == "digits-mini" and "beta" not in recipe.scenario_options
    same = load("small", profile="quick", scenario="mnist-mini")
    assert same.scenario_options["partition"] == "dirichlet"
    table = recipe.sources().set_index("setting")
    assert table.loc["scenario", "source"].startswith("you")


def test_options_of_a_scenario_that_is_not_there_are_those_of_the_recipe(write):
    recipe = load(write(), profile="paper", overrides={"scenario.beta": 0.1})
    assert recipe.scenario_options == {"beta": 0.1}
    with pytest.raises(SettingError, match=r"did you mean 'scenario\.beta'"):
        load("small", profile="paper", overrides={"scenario.beat": 0.1})


def test_a_changed_recipe_keeps_earlier_overrides(write):
    first = load(
        write(), profile="quick", scenario="digits-mini", overrides={"rounds": 4, "recompute": True}
    )
    second = first.change({"fedprox.mu": 0.5})
    assert second.overrides == {"rounds": 4, "fedprox.mu": 0.5} and second.recompute
    assert second.scenario == "digits-mini" and first.overrides == {"rounds": 4}
    with pytest.raises(SettingError):
        first.change({"round": 1})


AT = (
    SMALL
    + """
[at.digits-mini.scenario_options.private_size]
quick = 40
source = "ours: small"

[at.digits-mini.settings.rounds]
quick = 5
source = "ours: the domains differ"

[at.digits-mini.methods.fedprox]
mu = {paper = 0.5, source = "Table II"}

[at.mnist-mini.settings.batch_size]
quick = 16
source = "ours: few images"
"""
)


def test_what_differs_on_a_scenario_counts_only_there(write):
    own = load(write(AT), profile="quick")
    assert (own.settings.rounds, own.settings.batch_size) == (3, 16)
    assert own.scenario_options["beta"] == 0.5
    there = load("small", profile="quick", scenario="digits-mini")
    assert (there.settings.rounds, there.settings.batch_size) == (5, 32)
    assert there.scenario_options["private_size"] == 40 and "beta" not in there.scenario_options
    assert there.methods["fedprox"]["mu"] == 0.1  # the other profile's value is not this one's
    table = there.sources().set_index("setting")
    assert table.loc["rounds", "source"] == "ours: the domains differ"
    assert table.loc["fedprox.mu", "source"] == "Sec. 5"
    assert table.loc["scenario", "source"].startswith("you")
    paper = load("small", profile="paper", scenario="digits-mini")
    assert (paper.settings.rounds, paper.methods["fedprox"]["mu"]) == (100, 0.5)
    assert load("small", profile="paper").methods["fedprox"]["mu"] == 0.001


def test_overrides_win_over_what_differs_on_a_scenario(write):
    recipe = load(write(AT), profile="quick", scenario="digits-mini", overrides={"rounds": 7})
    assert recipe.settings.rounds == 7
    changed = recipe.change({"scenario.private_size": 20})
    assert changed.settings.rounds == 7 and changed.scenario_options["private_size"] == 20


# --- bad input


@pytest.mark.parametrize(
    "overrides, hint",
    [
        ({"round": 4}, "did you mean 'rounds'"),
        ({"fedprox.nu": 0.1}, "did you mean 'fedprox.mu'"),
        ({"fedavg.mu": 0.1}, "unknown override 'fedavg.mu'"),
        ({"fedprx.mu": 0.1}, "did you mean 'fedprox.mu'"),
        ({"scenario.bta": 0.1}, "did you mean 'scenario.beta'"),
        ({"scenario.public": 1}, "unknown override 'scenario.public'"),
        ({"scenario": "mnist-mini"}, "unknown override"),
        ({"fedprox": {"mu": 0.1}}, "did you mean 'fedprox.mu'"),
        ({3: 4}, "unknown override 3"),
        ({"rounds": True}, "rounds = True"),
        ({"rounds": 4.0}, "a valid integer"),
        ({"rounds": "4"}, "rounds = '4'"),
        ({"rounds": 0}, "greater than 0"),
        ({"rounds": None}, "rounds = None"),
        ({"lr": True}, "lr = True"),
        ({"lr": "0.1"}, "lr must be a valid number"),
        ({"lr": float("nan")}, "lr = nan"),
        ({"lr": float("inf")}, "finite"),
        ({"lr": 10**400}, "lr must be a valid number"),
        ({"drop_last": 1}, "a valid boolean"),
        ({"optimizer": ["sgd"]}, "choose one of: adam, adamw, sgd"),
        ({"optimizer": "adm"}, "did you mean 'adam'"),
        ({"observe": "after_local"}, "such as ['after_local']"),
        ({"observe": ["after_local", 3]}, "unknown moment in 'observe' 3"),
        ({"observe": ["after_lokal"]}, "did you mean 'after_local'"),
        ({"models": ("small_cnn",)}, "models"),
        ({"record": {"rounds": [float("nan")]}}, "finite"),
        ({"record": []}, "a valid dictionary"),
        ({"fedprox.mu": "0.1"}, "mu = '0.1'"),
        ({"fedprox.mu": True}, "mu = True"),
        ({"fedprox.mu": float("nan")}, "finite"),
        ({"scenario.beta": -float("inf")}, "finite"),
        ({"scenario.beta": {1, 2}}, "scenario.beta"),
        ({"recompute": 1}, "a valid boolean"),
        ('{"rounds": 4}', "overrides is a str"),
        ([("rounds", 4)], "overrides is a list"),
    ],
)
def test_a_wrong_override_is_one_clear_error(overrides, hint, write):
    with pytest.raises(SettingError) as error:
        load(write(), profile="quick", overrides=overrides)
    assert hint in str(error.value)


@pytest.mark.parametrize(
    "call, hint",
    [
        ({"name": "smal", "profile": "quick"}, "did you mean 'small'"),
        ({"name": "../small", "profile": "quick"}, "unknown recipe"),
        ({"name": None, "profile": "quick"}, "unknown recipe"),
        ({"name": "small", "profile": "Quick"}, "did you mean 'quick'"),
        ({"name": "small", "profile": None}, "choose one of: paper, quick"),
        ({"name": "small", "profile": "quick", "scenario": 3}, "scenario = 3"),
    ],
)
def test_an_unknown_recipe_or_profile_is_one_clear_error(call, hint, write):
    write()
    with pytest.raises(SettingError) as error:
        load(**call)
    assert hint in str(error.value)


@pytest.mark.parametrize(
    "text, hint",
    [
        (change('source = "quick: ours, time; paper: Sec. 5"', ""), "no 'source'"),
        (change('source = "Table I"', 'source = " "'), "source = ' '"),
        (change('source = "Table I"', "source = 1"), "small.toml, scenario.beta"),
        (change("quick = 3\npaper = 100\n", ""), "'rounds' has no value"),
        (change("[settings.rounds]", "[settings.roundz]"), "did you mean 'rounds'"),
        (change("paper = 100", "papr = 100"), "did you mean 'paper'"),
        (change("[methods.fedprox.mu]", "[methods.fedprox.weighing]"), "did you mean 'weighting'"),
        (change("[methods.fedprox.mu]", "[methods.fedprix.mu]"), "did you mean 'fedprox'"),
        (change("[methods.fedavg]", "[method.fedavg]"), "did you mean 'methods'"),
        (change("[methods.fedavg]", "[methods]\nfedavg = 1"), "methods['fedavg'] = 1"),
        (change("[settings.models]", "[settings]\nlr = 0.1\n[settings.models]"), "settings['lr']"),
        (change("[scenario.name]", "[scenario.nam]"), "did you mean 'name'"),
        (change('title = "Small"', ""), "no 'title'"),
        (change('paper = "FedCSD"', "paper = 3"), "paper = 3"),
        (change("quick = 3", 'quick = "3"'), "rounds = '3'"),
        (change("quick = 3", "quick = true"), "rounds = True"),
        (change("quick = 3", "quick = nan"), "rounds = nan"),
        (change("quick = 0.5", "quick = inf"), "scenario.beta = inf"),
        (change("quick = 0.5", "quick = 2026-11-21"), "scenario.beta"),
        (change("quick = 0.1", "quick = nan"), "fedprox.mu = nan"),
        (change("quick = 0.1", 'quick = "much"'), "mu = 'much'"),
        (change('quick = "mnist-mini"\n', ""), "scenario = None"),
        (SMALL + SMALL, "cannot be read"),
        (AT.replace("at.mnist-mini", "at.mnist-mimi"), "did you mean 'mnist-mini'"),
        (AT.replace("digits-mini.settings", "digits-mini.setings"), "did you mean 'settings'"),
        (AT.replace("mnist-mini.settings.batch_size", "mnist-mini.scenario.name"), "unknown part"),
        (AT.replace("settings.batch_size", "settings.batch_siz"), "did you mean 'batch_size'"),
        (AT.replace("digits-mini.methods.fedprox", "digits-mini.methods.moon"), "of this recipe"),
        (AT.replace("mu = {paper", "muu = {paper"), "did you mean 'mu'"),
        (AT.replace(', source = "Table II"', ""), "fedprox.mu"),
        (AT.replace("quick = 16", 'quick = "16"'), "batch_size = '16'"),
        (SMALL + "[at]\ndigits-mini = 3", "at['digits-mini'] = 3"),
        ("", "no 'title'"),
        ('title = "Small"\npaper = "x"\n', "no 'scenario'"),
        (SMALL.encode() + b"\xff", "cannot be read"),
    ],
)
def test_a_wrong_recipe_file_is_one_clear_error(text, hint, write):
    with pytest.raises(SettingError) as error:
        load(write(text), profile="quick")
    assert hint in str(error.value)


def test_a_recipe_file_that_cannot_be_opened_is_one_clear_error(write, tmp_path):
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(SettingError, match="cannot be read"):
        load("folder", profile="quick")


@pytest.mark.parametrize("cut", range(0, len(SMALL), 7))
def test_a_recipe_cut_anywhere_loads_whole_settings_or_fails_clearly(cut, write):
    try:
        recipe = load(write(SMALL[:cut]), profile="quick")
    except SettingError:
        return
    whole = load(write(name="whole"), profile="quick")
    assert set(recipe.origins.items()) <= set(whole.origins.items())
    assert set(asdict(recipe.settings)) == set(asdict(whole.settings))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
keys = st.sampled_from([*FIELDS, "recompute", "fedprox.mu", "fedavg.evaluate", "scenario.beta"])


@given(st.dictionaries(keys | st.text(max_size=12), json_values, max_size=4))
def test_any_overrides_load_or_fail_with_one_of_our_errors(overrides):
    try:
        recipe = load("start", profile="quick", scenario="mnist-mini", overrides=overrides)
    except FedtutorError:
        return
    for key, value in overrides.items():
        found = recipe.recompute if key == "recompute" else recipe.values()[key]
        assert found == (float(value) if isinstance(found, float) else value)
    json.dumps(asdict(recipe), allow_nan=False)


# --- a learning rate that was tuned for one method

TUNED = "\n[methods.fedavg.lr]\nquick = 0.5\nsource = 'the best of five'\n"


def test_a_method_may_have_a_learning_rate_of_its_own(write):
    recipe = load(write(SMALL + TUNED), profile="quick", overrides={"fedprox.lr": 2})
    assert recipe.settings.lr == Settings().lr == recipe.settings_of("solo").lr
    assert recipe.settings_of("fedavg") == replace(recipe.settings, lr=0.5)
    assert recipe.settings_of("fedprox").lr == 2.0
    assert "lr" not in recipe.methods["fedavg"] and recipe.make("fedavg")
    table = recipe.sources().set_index("setting")
    assert tuple(table.loc["fedavg.lr"]) == (0.5, "the best of five")
    assert tuple(table.loc["fedprox.lr"]) == (2.0, SET_BY_YOU)
    assert load("small", profile="paper").rates == {}


def test_an_override_of_the_learning_rate_goes_before_all_that_were_tuned(write):
    recipe = load(write(SMALL + TUNED), profile="quick", overrides={"lr": 0.1, "solo.lr": 0.2})
    assert [recipe.settings_of(m).lr for m in ("fedavg", "fedprox", "solo")] == [0.1, 0.1, 0.2]
    assert "fedavg.lr" not in recipe.values()


@pytest.mark.parametrize("lr", [0, -1.0, "fast", float("nan")])
def test_a_learning_rate_of_a_method_is_checked_as_the_setting_is(write, lr):
    with pytest.raises(SettingError, match="lr"):
        load(write(), profile="quick", overrides={"fedprox.lr": lr})
