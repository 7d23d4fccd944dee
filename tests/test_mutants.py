"""``tests.mutants`` finds surviving mutants in a small project. ``tests.mutation`` makes the listed changes."""

import ast

import pytest

from tests.mutants import AREAS, REASONS, ROOT, area_of, draw, survivors
from tests.mutation import mutants

CODE = '''"""A docstring with 1 number."""

from typing import Literal

Sign = Literal[1] | Literal[2]


def clip(low: int | None, x: int, *, strict: bool = True) -> int | None:
    """Return x, or 0 below low."""
    if low is not None and x < low:
        return 0
    if x > 1000:
        raise ValueError("more than " + str(1000))
    return floor(
        x,
        low,
    )
'''


def changes(code):
    return {(each.old, each.new) for each in mutants(code)}


def test_code_has_these_mutants():
    assert changes(CODE) == {
        ("True", "False"),
        ("low is not None and x < low", "low is not None or x < low"),
        ("low is not None and x < low", "x < low"),
        ("low is not None and x < low", "low is not None"),
        ("low is not None", "low is None"),
        ("x < low", "x <= low"),
        ("0", "1"),
        ("x > 1000", "x >= 1000"),
        ("1000", "1001"),
        ("floor(x, low)", "floor(low, x)"),
    }


@pytest.mark.parametrize(
    "code",
    [
        "x: Literal[1] = y\n",
        "def f(x: int = y, *a: Literal[1]) -> Literal[1]: ...\n",
        "zip(x, strict=True)\n",
        "raise ValueError(1)\n",
        "warn(f'{a + 1}')\n",
        "@cache(1)\ndef f(): ...\n",
        "match x:\n    case 1: pass\n",
        "isinstance(x, y)\n",
        "max(x, y)\n",
        "f(*x, y)\n",
        "f(x, x)\n",
    ],
)
def test_some_code_has_no_mutants(code):
    assert changes(code) == set()


def test_a_mutant_is_one_change_that_parses_and_keeps_the_lines():
    for each in mutants(CODE):
        text = each.applied(CODE)
        ast.parse(text)
        assert text != CODE and text.count("\n") == CODE.count("\n")


def test_columns_are_counted_in_characters():
    (each,) = mutants("'äöü', x == y\n")
    assert each.applied("'äöü', x == y\n") == "'äöü', (x != y)\n"


def test_survivors_are_mutants_that_pass_all_tests(tmp_path):
    (tmp_path / "minijax").mkdir()
    (tmp_path / "minijax" / "clip.py").write_text("def clip(x):\n    return 0 if x < 0 else x\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_clip.py").write_text(
        "from minijax.clip import clip\n\n\ndef test_clip():\n    assert [clip(x) for x in (-1, 3)] == [0, 3]\n"
    )
    before = {path: path.read_text() for path in tmp_path.rglob("*.py")}
    drawn = draw(tmp_path, [], 100, 0)
    left = survivors(tmp_path, drawn, jobs=2, limit=60, areas={"minijax": ("tests",)})
    assert sorted(map(str, left)) == ["minijax/clip.py:2: 0  ->  1", "minijax/clip.py:2: x < 0  ->  x <= 0"]
    assert len(drawn) > len(left)
    assert {path: path.read_text() for path in tmp_path.rglob("*.py")} == before


def test_the_same_seed_draws_the_same_mutants():
    only = ["minijax/ops/scan.py"]
    assert draw(ROOT, only, 5, 1) == draw(ROOT, only, 5, 1) != draw(ROOT, only, 5, 2)


def test_listed_areas_and_reasons_exist():
    tests = {path for paths in AREAS.values() for path in paths}
    assert [name for name in {*AREAS, *tests, *(file for file, _, _ in REASONS)} if not (ROOT / name).exists()] == []
    assert area_of("minijax/ops/scan.py", AREAS)[0] == "tests/ops/test_scan.py"
    assert area_of("minijax/ops/sort.py", AREAS) == AREAS["minijax/ops"]


def test_each_reason_belongs_to_a_current_mutant():
    gone = [key for key in REASONS if (key[1], key[2]) not in changes((ROOT / key[0]).read_text(encoding="utf-8"))]
    assert gone == []
