from __future__ import annotations

from pathlib import Path

import pytest

from curation.study.design import StudyDesign, read_design
from datalake.errors import LakeError
from tests.curation.study.corpora import DESIGN


def design(tmp_path: Path, text: str) -> StudyDesign:
    path = tmp_path / "design.yaml"
    path.write_text(text)
    return read_design(path)


def test_what_a_file_says(tmp_path: Path) -> None:
    found = design(tmp_path, DESIGN)
    methods = {method.name: method for method in found.methods}
    # No budget turns naive aggregation; random sampling and DOSS need one.
    assert {name: method.budgets for name, method in methods.items()} == {
        "naive": (None,),
        "random": (40,),
        "doss": (40,),
        "doss_weight": (40, None),
        "semdedup": (None,),
    }
    assert (methods["doss_weight"].verb, methods["doss_weight"].plugin) == ("weigh", "doss")
    assert methods["doss_weight"].parameters_text == '{"alpha":0.5}'
    assert found.seeds == (0, 1)
    assert [plan.protocol for plan in found.protocols] == ["logo", "loso"]
    assert found.baselines == ("naive", "random")
    assert found.training.num_steps == 4


def test_a_grid_is_a_method_a_pair(tmp_path: Path) -> None:
    text = """
table: pool
protocols: [loso]
methods:
  - naive
  - {name: even, weigh: uniform}
  - {method: diversity, num_sources: [1, 2], num_generators: [2, 4, 8], budgets: [20]}
"""
    found = design(tmp_path, text)
    grid = found.methods[2:]
    assert [tuple(method.parameters.values()) for method in grid] == [
        (1, 2), (1, 4), (1, 8), (2, 2), (2, 4), (2, 8),
    ]  # fmt: skip
    assert {(each.name, each.verb, each.budgets) for each in grid} == {
        ("diversity", "subset", (20,))
    }
    # What is there for laws is not held against the baselines.
    assert found.compared == ("naive", "even")
    assert design(tmp_path, text + "compared: [even]\n").compared == ("even",)
    for old, new, said in (
        ("[1, 2]", "[1, 1]", "none twice"),
        ("[1, 2]", "[0, 2]", "above 0"),
        ("[1, 2]", "[one]", "whole number"),
        ("num_sources", "num_source", "num_sources"),
    ):
        with pytest.raises(LakeError, match=said):
            design(tmp_path, text.replace(old, new))
    with pytest.raises(LakeError, match="evn, of compared"):
        design(tmp_path, text + "compared: [evn]\n")


def test_orders_plugins_and_names(tmp_path: Path) -> None:
    found = design(
        tmp_path,
        """
table: pool
protocols: {logo: {groups: {both: [a, b]}, min_spoof: 3}}
methods:
  - {name: centres, select: doss, order: k_center, embedding: vector, cap: 5}
  - {name: evenly, weigh: uniform}
seeds: [3, 5]
""",
    )
    centres, evenly = found.methods
    assert (centres.name, centres.plugin, centres.budgets) == ("centres", "doss", (None,))
    assert evenly.verb == "weigh"
    assert found.protocols[0].groups == {"both": ("a", "b")}
    assert found.seeds == (3, 5)
    assert found.baselines == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("\nbudgets:", "\nbudget:", "no key 'budget' ("),
        ("  - random", "  - randon", "Did you mean random"),
        ("  - random", "  - doss", "Two methods are called doss"),
        ("  - naive", "  - {method: naive, budgets: [40]}", "no budget turns it"),
        ("  - doss\n", "  - {method: doss, budgets: [all]}\n", "which find its cap"),
        ("alpha: 0.5", "alhpa: 0.5", "Did you mean alpha"),
        ("threshold: 0.9", "treshold: 0.9", "Did you mean threshold"),
        ("[logo, loso]", "[logo, losso]", "Did you mean loso"),
        ("[logo, loso]", "{loso: {groups: {a: [b]}}}", "no key 'groups' in protocols.loso"),
        ("[logo, loso]", "{logo: {bonafide_fraction: 1}}", "above 0 and below 1"),
        ("num_steps: 4", "num_step: 4", "Did you mean num_steps"),
        ("num_steps: 4", "num_steps: 0", "num_steps is too small"),
        ("num_steps: 4", "num_steps: four", "a whole number"),
        ("num_steps: 4", "sampling: weights", "no key 'sampling' in training"),
        ("seeds: 2", "seeds: [1, 1]", "none twice"),
        ("seeds: 2", "seeds: true", "a whole number"),
        ("budgets: [40, all]", "budgets: [0]", "numbers of rows above 0"),
        ("embedding: vector, threshold", "threshold", "needs the embedding"),
        ("table: pool", "baselines: [randm]\ntable: pool", "Did you mean random"),
        ("table: pool", "", "needs table"),
        ("table: pool", "table: [pool", "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in DESIGN
    with pytest.raises(LakeError) as failing:
        design(tmp_path, DESIGN.replace(old, new, 1))
    assert said in str(failing.value)
    assert failing.value.exit_code == 2
