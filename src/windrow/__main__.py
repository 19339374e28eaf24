"""`python -m windrow`: the same as the program `windrow`."""

from windrow.cli import main

main()
