"""The proof by random histories: random schemas, random writers, and documents computed by naive Python.

`tables` and `schemas` make a world, `histories` what writers do to it, `evaluate` what every document must
then be. `stepping` follows a world inside this process, step by step; `processes` runs the real command and
does it harm. `mutants` breaks flusso on purpose, to see that all of this notices. docs/internals/oracle.md
tells more.
"""
