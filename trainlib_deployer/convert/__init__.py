"""Networks as other tools describe them, made into a `net.py`."""
