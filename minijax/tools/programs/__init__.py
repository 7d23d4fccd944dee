"""Programs as text: StableHLO and HLO counted and folded, and each line linked to the Python line it comes from."""
