"""Programs over several devices, written once for both libraries, and comparisons of them."""
