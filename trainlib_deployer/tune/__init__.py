"""The tuner: tiles and kernels that estimates put first, measured where they will run."""
