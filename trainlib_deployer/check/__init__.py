"""Does what was made hold? Shares nothing with what made it."""
