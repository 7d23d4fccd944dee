"""Programs over several devices, written once for both libraries, and what is compared of them."""
