"""A sample of the audit: ``python -m tests.claims`` checks as many claims as one likes."""

import pytest

from tests.claims import faults
from tests.claims.audit import claims_of


@pytest.mark.parametrize("seed", [2, 5, 11])
def test_no_verdict_about_nans_is_false(seed):
    claims, _ = claims_of(seed, ["nan"])
    assert claims and [claim for claim in claims if claim.true] == []


@pytest.mark.parametrize("command", ["grad", "jaxpr", "keys"])
def test_no_claim_of_these_commands_is_false(command):
    claims, _ = claims_of(3, [command])
    assert claims and [claim for claim in claims if claim.true] == []


@pytest.mark.parametrize("fault", [fault for fault in faults.FAULTS if fault.command == "nan"][:1])
def test_a_fault_is_noticed(fault):
    assert faults.noticed(fault)


def test_values_names_and_derivatives_are_those_of_jax():
    claims, _ = claims_of(14, ["values"])
    kinds = {"value", "name", "cotangent"}
    assert {claim.kind for claim in claims} >= kinds
    assert [claim for claim in claims if claim.true and claim.kind in kinds] == []
