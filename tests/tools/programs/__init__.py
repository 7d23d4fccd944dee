"""Programs that tests of the tools record."""
