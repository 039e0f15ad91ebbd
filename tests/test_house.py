"""The house keeps its rules: who may import whom, and how long a file may be."""

from importlinter.cli import lint_imports

from fedtutor.engine.files import ROOT

CORE = ("rounds", "federation", "clients", "channel", "settings", "measures", "evaluation",
        "images", "randomness", "errors", "kinds")  # fmt: skip
LONG = {  # longer than a wing's file may be; they can only become shorter
    "experiments/arenas.py": 400,
    "experiments/attack_studies.py": 500, "experiments/code_hash.py": 530,
    "models/networks.py": 580, "distillation.py": 440, "report/tables.py": 410,
}  # fmt: skip


def length(name: str) -> int:
    return len((ROOT / "fedtutor" / name).read_text(encoding="utf-8").splitlines())


def test_nobody_imports_upward(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True, no_logo=True) == 0


def test_the_core_is_thin():
    flat = {path.stem for path in (ROOT / "fedtutor").glob("*.py")}
    assert flat == {*CORE, "__init__", "__main__", "distillation"}
    lengths = {name: length(f"{name}.py") for name in CORE}
    assert max(lengths.values()) <= 180, lengths
    assert sum(lengths.values()) <= 1250, sum(lengths.values())  # on the way to 1,100


def test_no_file_of_a_wing_is_long():
    for path in (ROOT / "fedtutor").rglob("*.py"):
        name = path.relative_to(ROOT / "fedtutor").as_posix()
        assert length(name) <= LONG.get(name, 350), name
