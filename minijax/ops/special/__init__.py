"""Special functions that XLA has no operation for: incomplete gamma and beta functions, and some of Bessel's."""
