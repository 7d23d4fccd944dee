"""Tests of the views below the jaxpr: where a call spends its time, and the page of XLA's compilation stages."""
