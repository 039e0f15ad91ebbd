"""What machines read about the data: an RO-Crate of the results, a Croissant of the bundled images.

Both are made by the library of their format from what is there: files and their hashes, runs, the
arrays, the table of licences in `data/README.md`. Nothing in them depends on when they are made;
the date is that of the release in `CITATION.cff`. `python -m fedtutor describe` writes both.

RO-Crate 1.3: w3id.org/ro/crate/1.3. Croissant 1.0: mlcommons.org/croissant/1.0.
"""

import hashlib
import re
from collections.abc import Iterable
from importlib import import_module
from itertools import groupby
from pathlib import Path

import numpy as np

from .. import __version__
from ..engine.files import ROOT, load_json, save_json, shown
from ..errors import StorageError
from ..experiments import results, stored
from ..papers.printed import PAPERS, PUBLISHED

BUNDLED = ROOT / "data" / "bundled"
CROISSANT = "croissant.json"
DATA_README = ROOT / "data" / "README.md"
CITATION = ROOT / "CITATION.cff"
FORMATS = {".jsonl": "application/jsonlines", ".json": "application/json", ".md": "text/markdown",
           ".npz": "application/zip", ".py": "text/x-python"}  # fmt: skip
AUTHORS, TOOL, RO_CRATE = "#authors", "#fedtutor", "1.3"
OURS = "Apache-2.0"
LICENCES = {
    OURS: "https://www.apache.org/licenses/LICENSE-2.0",
    "CC BY 2.0": "https://creativecommons.org/licenses/by/2.0/",
    "CC0": "https://creativecommons.org/publicdomain/zero/1.0/",
    "public domain": "https://creativecommons.org/publicdomain/mark/1.0/",
}
MEASURED = ["accuracy of every client on every test set", "training loss", "bytes sent", "seconds"]


def update(folder: Path = results.RESULTS, bundled: Path = BUNDLED) -> list[str]:
    """Write both files where they differ from what is there; return the names, in words."""
    said = []
    for path, value in ((Path(folder) / stored.CRATE, crate(folder)),
                        (Path(bundled) / CROISSANT, croissant(bundled))):  # fmt: skip
        fresh = not path.is_file() or load_json(path) != value
        if fresh:
            save_json(path, value)
        said.append(f"{shown(path)}: " + ("new" if fresh else "as it was"))
    return said


# --- results


def crate(folder: Path = results.RESULTS) -> dict:
    """A folder of results as an RO-Crate: JSON-LD with every file, its hash, and how it was made.

    Raises `StorageError` for a result that cannot be read.
    """
    folder = Path(folder)
    made = _library("rocrate.rocrate").ROCrate(version=RO_CRATE)
    _about_all(made)
    runs = _runs_by_file(folder)
    _about_papers(made, {result.paper for held in runs.values() for result in held})
    for path in _files(folder):
        name, held = path.relative_to(folder).as_posix(), runs.get(path, [])
        file = made.add_file(path, name, properties=_file(path, name, held))
        if held:
            _enter(made, f"#made-{name}", "CreateAction", f"fedtutor trained what is in {name}",
                   description=_machines(held), agent={"@id": AUTHORS}, instrument={"@id": TOOL},
                   result={"@id": file.id})  # fmt: skip
    return made.metadata.generate()


def _about_all(made) -> None:
    """Who made the folder, with what, under which licence."""
    licence = {"@id": LICENCES[OURS]}
    _enter(made, AUTHORS, "Organization", cited("name"))
    _enter(made, licence["@id"], "CreativeWork", "Apache License 2.0")
    _enter(made, TOOL, "SoftwareApplication", "fedtutor", softwareVersion=__version__,
           license=licence)  # fmt: skip
    said = {
        "name": "What fedtutor measured",
        "description": "Runs of federated learning, one per line: what was asked, on which data "
        "and machine, with which code, and what came out in each round. README.md says what the "
        "folders hold.",
        "datePublished": cited("date-released"), "version": __version__, "license": licence,
        "author": {"@id": AUTHORS},
    }  # fmt: skip
    for key, value in said.items():
        made.root_dataset[key] = value


def _about_papers(made, names: set[str]) -> None:
    for row in table_in(PUBLISHED / "README.md", "short name"):
        if row["short name"] in names:
            _enter(made, _paper(row["short name"]), "ScholarlyArticle", row["paper"],
                   alternateName=row["short name"])  # fmt: skip


def _enter(made, id: str, kind: str, name: str, **more) -> None:
    entity = _library("rocrate.model.contextentity").ContextEntity
    made.add(entity(made, id, {"@type": kind, "name": name, **more}))


def _paper(name: str) -> str:
    return f"#paper-{name.lower().replace('+', '-plus')}"


def _runs_by_file(folder: Path) -> dict[Path, list]:
    """File -> the results that it holds."""
    found = {}
    for path, result in results.load_all(folder).items():
        if isinstance(result, StorageError):
            raise result
        found.setdefault(path if path.is_file() else stored.folded(path), []).append(result)
    return found


def _files(folder: Path) -> list[Path]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in files if path.name != stored.CRATE and path.name[0] != "."]


def _file(path: Path, name: str, held: list) -> dict:
    """The properties of a file of results."""
    about = {"name": name, "contentSize": str(path.stat().st_size), "sha256": sha256(path)}
    if path.suffix in FORMATS:
        about["encodingFormat"] = FORMATS[path.suffix]
    if held:
        methods = _in_words(result.method for result in held)
        seeds = _in_words(result.seed for result in held)
        titles = _in_words(result.scenario["title"] for result in held)
        profiles = _in_words(result.profile for result in held)
        about["description"] = (f"{len(held)} runs; data: {titles}; profile: {profiles}; methods: "
                                f"{methods}; seeds: {seeds}")  # fmt: skip
        about["variableMeasured"] = MEASURED
        papers = {result.paper for result in held} & {*PAPERS}
        about["about"] = [{"@id": _paper(name)} for name in sorted(papers)]
    return about


def _machines(held: list) -> str:
    return _in_words(
        f"{made['device']}, {made['platform']}, Python {made['python']}, PyTorch {made['torch']}"
        for made in (result.environment for result in held)
    )


def _in_words(values: Iterable) -> str:
    return ", ".join(map(str, sorted(set(values))))


# --- bundled images


def croissant(folder: Path = BUNDLED) -> dict:
    """The bundled images as a Croissant: files with hashes, arrays, and whose pictures they have.

    Three sets of records: "files" are the members of the archive, "arrays" their shapes and what
    they show, "sources" the pictures that went into them, with their licences.
    """
    mlc = _library("mlcroissant")
    archive = Path(folder) / "digits_mini.npz"
    pictures = table_in(DATA_README, "source")
    sources = [row for row in pictures if "not copied here" not in row["license"]]
    licences = [url for name, url in LICENCES.items() if name == OURS
                or any(row["license"].startswith(name) for row in sources)]  # fmt: skip
    files = [
        mlc.FileObject(id=path.name, name=path.name, content_url=path.name, sha256=sha256(path),
                       content_size=f"{path.stat().st_size} B",
                       encoding_formats=[FORMATS[path.suffix]], description=words)
        for path, words in ((archive, "the images and labels, as numpy.savez_compressed writes"),
                            (Path(folder) / "make_bundled.py", "the script that drew them"))
    ]  # fmt: skip
    members = mlc.FileSet(id="members", name="members", contained_in=[archive.name],
                          includes=["*.npy"], encoding_formats=["application/x-npy"],
                          description="the arrays of the archive, a file each")  # fmt: skip
    name = mlc.Field(
        id="files/name", name="name", data_types=[mlc.DataType.TEXT],
        description="the array's name and .npy",
        source=mlc.Source(file_set="members", extract=mlc.Extract(file_property="filename")),
    )  # fmt: skip
    record_sets = [
        mlc.RecordSet(id="files", name="files", fields=[name], key=["files/name"]),
        _inline(mlc, "arrays", _arrays(archive), "what each array holds"),
        _inline(mlc, "sources", sources, "what the images were made of; altered as `license` says"),
    ]
    return mlc.Metadata(
        name="digits-mini", version=__version__, license=licences,
        description="Two rendered domains of digits and crops of natural photographs, 32 x 32 "
        "pixels in color: the bundled part of a stand-in for the digit sets of FCCL and FCCL+.",
        creators=[mlc.Organization(name=cited("name"))], date_published=cited("date-released"),
        cite_as=f"{cited('name')}: fedtutor, version {__version__}, {cited('date-released')[:4]}",
        distribution=[*files, members], record_sets=record_sets,
    ).to_json()  # fmt: skip


def _arrays(archive: Path) -> list[dict]:
    """A row per array of the archive."""
    with np.load(archive, allow_pickle=False) as held:
        return [
            {"name": name, "type": str(held[name].dtype), "items": len(held[name]),
             "shape": " x ".join(map(str, held[name].shape)),
             "least": int(held[name].min()), "largest": int(held[name].max())}
            for name in held.files
        ]  # fmt: skip


def _inline(mlc, name: str, rows: list[dict], words: str):
    """A set of records that stand in the metadata themselves."""
    kinds = {str: mlc.DataType.TEXT, int: mlc.DataType.INTEGER}
    fields = [mlc.Field(id=f"{name}/{column}", name=column, data_types=[kinds[type(value)]])
              for column, value in rows[0].items()]  # fmt: skip
    data = [{f"{name}/{column}": value for column, value in row.items()} for row in rows]
    return mlc.RecordSet(id=name, name=name, description=words, fields=fields, data=data)


# --- what is read elsewhere


def cited(key: str) -> str:
    """A value of CITATION.cff."""
    found = re.search(rf'^[ -]*{key}: "?(.*?)"?$', CITATION.read_text(encoding="utf-8"), re.M)
    if not found:
        raise StorageError(f"nothing is said about {key}", where=shown(CITATION),
                           do=f"add {key}: ...")  # fmt: skip
    return found[1]


def table_in(page: Path, column: str) -> list[dict]:
    """The rows of a Markdown page's first table with that `column`; marks of code left out."""
    lines = Path(page).read_text(encoding="utf-8").splitlines()
    for is_table, group in groupby(lines, key=lambda line: line.startswith("|")):
        if is_table:
            head, _, *rows = [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
                              for line in group]  # fmt: skip
            if column in head:
                return [dict(zip(head, row, strict=True)) for row in rows]
    raise StorageError(f"no table has a column {column!r}", where=shown(page),
                       do="restore it with git checkout")  # fmt: skip


def sha256(path: Path) -> str:
    """The hash of a file, 64 hex digits."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _library(name: str):
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise StorageError(f"the package {package} is not installed", where="fedtutor describe",
                           do=f"install it: pip install {package} (see requirements-dev.txt)"
                           ) from None  # fmt: skip
