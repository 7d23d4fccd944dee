"""The values of staged programs, found when somebody looks: ``replay``, and ``summary`` of what is found."""
