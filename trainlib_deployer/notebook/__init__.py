"""For notebooks: `%load_ext trainlib_deployer`."""
