"""The fast ``NamedTuple`` behaves like typing's: the same operations give the same results."""

from __future__ import annotations

import copy
import pickle
import typing
from typing import Any

import pytest

from minijax.core.records import Frozen, NamedTuple


class Cheap(NamedTuple):
    """Documented."""

    x: int
    y: str
    z: Any = None

    def both(self):
        return self.y * self.x


class Typing(typing.NamedTuple):
    x: int
    y: str
    z: Any = None

    def both(self):
        return self.y * self.x


@pytest.mark.parametrize(
    "args", [((2, "a"), {}), ((2, "a", 3), {}), ((2,), {"y": "b"}), ((), {"y": "b", "x": 1, "z": 4})]
)
def test_it_behaves_like_typings_namedtuple(args):
    cheap, like = Cheap(*args[0], **args[1]), Typing(*args[0], **args[1])
    assert tuple(cheap) == tuple(like) and hash(cheap) == hash(like) and cheap == like
    assert repr(cheap).replace("Cheap", "Typing") == repr(like)
    assert (cheap.x, cheap.y, cheap.z, cheap.both()) == (like.x, like.y, like.z, like.both())
    assert cheap._asdict() == like._asdict() and cheap._fields == like._fields
    assert tuple(cheap._replace(z=9)) == tuple(like._replace(z=9)) and type(cheap._replace(z=9)) is Cheap
    assert Cheap._make([1, "c", 2]) == Typing._make([1, "c", 2]) and Cheap._field_defaults == Typing._field_defaults
    for again in (pickle.loads(pickle.dumps(cheap)), copy.copy(cheap), copy.deepcopy(cheap)):
        assert again == cheap and type(again) is Cheap
    assert not hasattr(cheap, "__dict__") and Cheap.__doc__ == "Documented."


@pytest.mark.parametrize(
    ("args", "named"), [((), {}), ((1,), {}), ((1, "a", 2, 3), {}), ((1, "a"), {"q": 1}), ((1, "a"), {"x": 1})]
)
def test_wrong_fields_are_refused(args, named):
    for kind in (Cheap, Typing):
        with pytest.raises(TypeError):
            kind(*args, **named)


class Point(Frozen):
    x: int
    y: int = 2


class Size(Frozen):
    x: int
    y: int = 2


def test_frozen_records_differ_from_tuples_and_other_classes():
    point = Point(1)
    assert (point, hash(point), repr(point)) == (Point(1, y=2), hash(Point(x=1, y=2)), "Point(x=1, y=2)")
    assert point != Size(1) and point != (1, 2) and not isinstance(point, tuple)
    assert point.replace(y=5).values() == (1, 5) and point.y == 2
    with pytest.raises(AttributeError, match=r"a Point cannot be changed \(attribute 'x'\)"):
        point.x = 3
    for args, named in (((), {}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1})):
        with pytest.raises(TypeError, match=r"Point\(\) (takes|misses|does not take)"):
            Point(*args, **named)
