"""`python -m drbo` is the command `drbo`."""

from drbo.cli import main

if __name__ == "__main__":
    main()
