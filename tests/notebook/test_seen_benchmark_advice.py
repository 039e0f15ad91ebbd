"""What notebook 07 says first and last."""

from fedtutor.notebook import seen_benchmark as seen
from fedtutor.notebook import seen_benchmark_advice as advice


def test_the_advice_does_not_take_undecided_for_equal(nothing_trains, monkeypatch):
    known, four = seen.recorded(), [seen.recorded("four networks")] * 2
    monkeypatch.setattr(advice, "told_weightings", lambda found: ["", "they cannot be told apart."])
    said = " ".join(advice.advice(known, known, *four))
    short = " ".join(advice.first_screen(known, known, *four))
    assert ("that counts clients alike" in short) == (
        advice.in_both(known, known, seen.OTHERS) == ["scaffold"]
    )
    assert "try that first" in said and "So take" not in said and "as good" not in said
    monkeypatch.setattr(advice, "told_weightings", lambda found: ["", "SCAFFOLD stays ahead."])
    assert "So take" in " ".join(advice.advice(known, known, *four))
    assert "that counts" not in " ".join(advice.first_screen(known, known, *four))
    assert advice._beaten_by([]) == "no method beats it"
    assert advice._beaten_by([], "training alone") == "no method beats training alone"
    assert advice._beaten_by(["fedavg"]) == "FedAvg beats it"
    assert advice._beaten_by(["fedavg", "moon"]) == "FedAvg and MOON beat it"


def test_the_first_screen_says_what_the_tables_say(nothing_trains):
    known, real = seen.recorded(), seen.recorded(scenario=seen.REAL)
    four, later = (seen.recorded("four networks", s) for s in (seen.SCENARIO, seen.REAL))
    said = " ".join(advice.first_screen(known, real, four, later))
    above, both = seen.better(known, seen.OTHERS), advice.in_both(known, real, seen.OTHERS)
    assert f"{len(above)} of {len(seen.federated(known))} methods beat training alone" in said
    assert f"none beats {seen._named(both)}," in said or not both
    assert set(both) <= set(above) and not set(both) - set(seen.unbeaten(real, seen.OTHERS))
    twice = set(seen.better(four, seen.OTHERS)) & set(seen.better(later, seen.OTHERS))
    assert ("no method beats training alone both here and on real digits" in said) == (not twice)
    taken = " ".join(advice.advice(known, real, four, later))
    for whom in seen.better(later, seen.OTHERS):
        assert seen.display_name(whom) in taken
    first = seen.leader(known, seen.OTHERS)
    beaten = seen.ranks.beside(seen.ranks.values(real, seen.OTHERS), first)[0]
    assert ("is beaten by" in taken) == bool(set(beaten) & set(both))
