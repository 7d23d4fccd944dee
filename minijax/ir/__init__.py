"""The jaxpr language: its data structures, typechecker, evaluator and printer."""
