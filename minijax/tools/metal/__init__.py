"""Below the program: XLA's passes one by one, the memory that it planned, and the code of each kernel."""
