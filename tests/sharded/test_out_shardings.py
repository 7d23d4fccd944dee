"""Every function that takes ``out_sharding=`` in JAX takes it here, and gives what JAX gives."""

from __future__ import annotations

from tests.on_devices import printed
from tests.sharded.out_shardings import KNOWN, PROGRAMS, signatures


def test_values_places_texts_and_errors_are_those_of_jax() -> None:
    found = printed("-m", "tests.sharded.out_shardings", "--slice", quickly=True)
    assert found["programs"] >= 50
    assert found["differing"] == {}
    assert set(KNOWN) <= set(PROGRAMS)


# Options of jnp.array that JAX takes by position with a warning; the updates of x.at take theirs as **options.
OTHERWISE = ("numpy.array", "x.at[i].")


def test_signatures_are_those_of_jax() -> None:
    rows = [*signatures()]
    rows_alike = [row for row in rows if not row[0].startswith(OTHERWISE)]
    differing = {name: (ours, theirs) for name, ours, theirs in rows_alike if ours != theirs}
    assert len(rows) > 60
    assert differing == {}
