"""Below the program: XLA's passes one by one, its memory plan, and the code of each kernel."""
