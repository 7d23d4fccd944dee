"""Programs as text: counts of StableHLO and HLO operations, and links from each line to its line of Python."""
