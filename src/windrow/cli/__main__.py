"""`python -m windrow.cli`, where the program `windrow` is not on the path."""

from windrow.cli import main

main()
