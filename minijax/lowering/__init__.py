"""Lowering: from jaxprs to StableHLO modules, written as MLIR text."""
