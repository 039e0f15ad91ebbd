"""The RO-Crate of the results and the Croissant of the bundled images, read by their libraries."""

import json
import shutil
from pathlib import Path

import mlcroissant
import numpy as np
import pytest
import rocrate
from rocrate.rocrate import ROCrate

from fedtutor.__main__ import main
from fedtutor.engine.files import ROOT, load_json
from fedtutor.errors import StorageError
from fedtutor.experiments import results, stored
from fedtutor.report import metadata

CRATE = results.RESULTS / stored.CRATE
CROISSANT = metadata.BUNDLED / metadata.CROISSANT
TERMS = load_json(Path(rocrate.__file__).parent / "data" / "ro-crate.jsonld")["@context"]


@pytest.fixture(scope="module")
def graph():
    return {entity["@id"]: entity for entity in load_json(CRATE)["@graph"]}


# --- both


@pytest.mark.parametrize("path, make", [(CRATE, metadata.crate), (CROISSANT, metadata.croissant)])
def test_what_is_committed_is_of_today(path, make):
    assert load_json(path) == make(), "stale: python -m fedtutor describe"


def test_the_command_writes_what_is_stale_and_leaves_the_rest(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "results" / "start" / "quick"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "data/results/fedcsd/quick/office-caltech.jsonl", folder)
    bundled = tmp_path / "bundled"
    shutil.copytree(metadata.BUNDLED, bundled)
    monkeypatch.setattr(metadata.update, "__defaults__", (tmp_path / "results", bundled))
    for said in (["new", "as it was"], ["as it was", "as it was"], ["new", "new"]):
        assert main(["describe"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.rpartition(": ")[2] for line in lines] == said
        before = (tmp_path / "results" / stored.CRATE).read_bytes()
        if said == ["as it was", "as it was"]:
            (folder / "office-caltech.jsonl").rename(folder / "other.jsonl")
            (bundled / "make_bundled.py").write_text("pass\n")
    assert b"other.jsonl" in before and b"office-caltech.jsonl" not in before


# --- results


def test_every_file_of_the_results_is_in_the_crate_with_its_hash(graph):
    crate = ROCrate(results.RESULTS)
    listed = {entity.id: entity for entity in crate.get_by_type("File")}
    there = {path.relative_to(results.RESULTS).as_posix(): path for path in
             results.RESULTS.rglob("*") if path.is_file() and path != CRATE}  # fmt: skip
    assert listed.keys() == there.keys() and len(there) > 10
    assert {part.id for part in crate.root_dataset["hasPart"]} == there.keys()
    for name, path in there.items():
        assert listed[name]["sha256"] == metadata.sha256(path)
        assert listed[name]["contentSize"] == str(len(path.read_bytes()))


def test_the_crate_counts_the_runs_that_are_there(graph):
    for name, entity in graph.items():
        if name.endswith(".jsonl") and entity["@type"] == "File":
            lines = (results.RESULTS / name).read_text(encoding="utf-8").splitlines()
            assert entity["description"].startswith(f"{len(lines)} runs; ")
            seeds = {json.loads(line)["seed"] for line in lines[:3]}
            said = entity["description"].rpartition("seeds: ")[2].split(", ")
            assert seeds <= set(map(int, said))


def test_the_crate_has_what_the_specification_requires(graph):
    root = ROCrate(results.RESULTS).root_dataset
    for key in ("name", "description", "datePublished", "license"):
        assert root[key], key
    about = graph["ro-crate-metadata.json"]
    assert about["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.3"}
    assert about["about"] == {"@id": "./"} and graph["./"]["@type"] == "Dataset"
    assert all("@type" in entity for entity in graph.values())


def test_every_term_and_type_of_the_crate_is_in_the_context(graph):
    used = {key for entity in graph.values() for key in entity if key[0] != "@"}
    used |= {entity["@type"] for entity in graph.values()}
    assert len(used) > 15 and used <= TERMS.keys()


def test_every_reference_of_the_crate_leads_to_an_entity(graph):
    def references(value):
        if isinstance(value, list):
            return [found for part in value for found in references(part)]
        return [value["@id"]] if isinstance(value, dict) else []

    found = [id for entity in graph.values() for key, value in entity.items()
             if key != "conformsTo" for id in references(value)]  # fmt: skip
    assert set(found) <= graph.keys() and len(found) > 50


def test_the_crate_is_no_result():
    assert CRATE not in results.load_all()


def test_a_damaged_result_is_not_described(tmp_path):
    (tmp_path / "a.json").write_text('{"recipe": ')
    with pytest.raises(StorageError, match=r"a\.json is damaged"):
        metadata.crate(tmp_path)


# --- bundled images


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """As anybody reads it; what is unpacked goes into a folder of this test."""
    from mlcroissant._src.operation_graph.operations import extract

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            extract, "EXTRACT_PATH", type(extract.EXTRACT_PATH)(tmp_path_factory.mktemp("c"))
        )
        yield mlcroissant.Dataset(CROISSANT)


def test_the_library_finds_nothing_wrong_with_the_croissant(dataset):
    issues = dataset.metadata.issues
    assert not issues.errors and not issues.warnings


def test_a_croissant_whose_reference_leads_nowhere_is_refused(tmp_path):
    """The library does look."""
    value = metadata.croissant()
    value["recordSet"][0]["field"][0]["source"]["fileSet"]["@id"] = "nowhere"
    path = tmp_path / metadata.CROISSANT
    path.write_text(json.dumps(value))
    with pytest.raises(mlcroissant.ValidationError):
        mlcroissant.Dataset(path)


def test_the_files_have_the_hashes_that_the_croissant_says(dataset):
    for file in dataset.metadata.distribution:
        if isinstance(file, mlcroissant.FileObject):
            assert file.sha256 == metadata.sha256(metadata.BUNDLED / file.content_url)


def test_the_records_are_the_arrays_of_the_archive(dataset):
    names = {record["files/name"].decode() for record in dataset.records("files")}
    with np.load(metadata.BUNDLED / "digits_mini.npz", allow_pickle=False) as held:
        assert names == {f"{name}.npy" for name in held.files}
        for record in dataset.records("arrays"):
            array = held[record["arrays/name"]]
            assert record["arrays/shape"] == " x ".join(map(str, array.shape))
            assert (record["arrays/least"], record["arrays/largest"]) == (array.min(), array.max())
            assert record["arrays/type"] == array.dtype


def test_every_picture_that_asks_for_a_name_is_named_with_its_licence(dataset):
    sources = {record["sources/data"]: record for record in dataset.records("sources")}
    asked = [r["sources/license"] for r in sources.values() if "BY" in r["sources/license"]]
    assert len(asked) == 2 and all(words.startswith("CC BY 2.0; ") for words in asked)
    assert "vultilion" in sources["flower.jpg (public)"]["sources/source"]
    assert metadata.LICENCES["CC BY 2.0"] in dataset.metadata.license
    assert not any("MNIST" in name for name in sources)  # read from a package, not bundled


# --- what can be missing


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mlcroissant", None)
    with pytest.raises(StorageError, match="package mlcroissant is not installed"):
        metadata.croissant()


def test_a_missing_table_and_a_missing_date_are_named(tmp_path, monkeypatch):
    (tmp_path / "page.md").write_text("| a |\n|---|\n| 1 |\n")
    assert metadata.table_in(tmp_path / "page.md", "a") == [{"a": "1"}]
    with pytest.raises(StorageError, match="no table has a column 'b'"):
        metadata.table_in(tmp_path / "page.md", "b")
    monkeypatch.setattr(metadata, "CITATION", tmp_path / "page.md")
    with pytest.raises(StorageError, match="nothing is said about date-released"):
        metadata.cited("date-released")
