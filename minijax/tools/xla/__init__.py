"""What XLA does with a program: its passes one by one, its memory plan, and the code of each kernel."""
