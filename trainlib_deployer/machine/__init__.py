"""The machines that a network is deployed to."""
