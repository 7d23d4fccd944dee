"""What stands below the program: where a call spends its time, and the page of what XLA made of it."""
