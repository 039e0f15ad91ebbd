"""The grid as a Snakemake workflow: a tiny one is run as the page on it says."""

import re
import shlex
import subprocess
import sys

import pytest

from fedtutor.engine.files import ROOT
from fedtutor.experiments import attack_list, manifest
from fedtutor.experiments.results import load_result

FOLDER = ROOT / "tools"
JOB = r"^(?:local)?rule run:"
MANIFEST = """
[[table]]
name = "tiny"
paper = "FCCL+"
tables = ["XV-intra"]
recipe = "start"
profile = "quick"
overrides = { models = ["simple_cnn"], rounds = 1, "scenario.private_size" = 60 }
columns = [{ column = "Digits/AVG" }]
seeds = [0]
value = 1
rows = [
  { row = "FedAvg", method = "fedavg", minutes = 1, gb = 0.1 },
  { row = "BASE", method = "solo", minutes = 1, gb = 0.1 },
]
"""


@pytest.fixture(scope="module")
def snakemake(tmp_path_factory):
    """A function that runs the workflow on a manifest of two runs, and what lies where."""
    folder = tmp_path_factory.mktemp("grid")
    (folder / "tiny.toml").write_text(MANIFEST)

    def call(*options, **more):
        pytest.importorskip("snakemake", reason="it is an extra: pip install -e '.[workflow]'")
        config = {"manifest": folder / "tiny.toml", "results": folder / "results",
                  "kept": folder / "kept", "device": "cpu", **more}  # fmt: skip
        command = [sys.executable, "-m", "snakemake", "--snakefile", FOLDER / "Snakefile",
                   "--cores", "2", "--directory", folder, *options,
                   "--config", *(f"{k}={v}" for k, v in config.items())]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout + done.stderr

    call.runs = manifest.load(folder / "tiny.toml")
    call.results = folder / "results"
    return call


@pytest.fixture(scope="module")
def done(snakemake):
    """The grid, run on two cores; its log."""
    return snakemake()


def test_every_run_is_a_job_with_one_result(snakemake, done):
    assert len(re.findall(JOB, done, flags=re.M)) == 2
    for run in snakemake.runs:
        result = load_result(run.path(snakemake.results))
        assert (result.method, result.seed) == (run.method, run.seed)
        assert result.environment["threads"] == 1
    found, faults = manifest.survey(snakemake.runs, snakemake.results)
    assert len(found) == 2 and not faults


def test_a_deleted_result_is_run_again_and_no_other(snakemake, done):
    snakemake.runs[0].path(snakemake.results).unlink()
    left = snakemake("--dry-run")
    assert len(re.findall(JOB, left, flags=re.M)) == 1
    assert re.search(r"output: \S*fedavg-seed0", left)


def commands():
    """The snakemake calls of the page, each as a list of words."""
    page = (FOLDER / "workflow.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", page, flags=re.S)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line.startswith("snakemake ")]


def test_the_page_names_settings_that_the_workflow_has():
    assert len(commands()) >= 4
    source = (FOLDER / "Snakefile").read_text(encoding="utf-8")
    for words in commands():
        assert words[1:3] == ["-s", "tools/Snakefile"]
        for word in words:
            if match := re.fullmatch(r"([a-z_]+)=.*", word):
                known = match[1] in source or match[1].startswith("slurm_")
                assert known or match[1] == "gpu_manufacturer", word


def test_a_run_is_chosen_by_a_part_of_its_name(snakemake):
    for only, jobs in (("tiny: BASE, Digits", 1), ("tiny: ", 2), ("tiny", 2), ("other: ", 0)):
        said = snakemake("--dry-run", "--forceall", only=only)
        assert len(re.findall(JOB, said, flags=re.M)) == jobs, only


def test_every_study_of_attacks_that_needs_no_gpu_has_its_job(snakemake):
    said = snakemake("attacks", "--dry-run", "--forceall")
    rows = attack_list.waiting()
    left = {row["name"] for row in rows if row["device"] == "cuda"}  # there is no GPU in this run
    assert left and said.count("rule attack:") == len(attack_list.listed().keys() - left)
    assert not [name for name in left if name in said]
