"""python -m trainlib_deployer."""

from trainlib_deployer.cli.main import main

if __name__ == "__main__":
    main()
