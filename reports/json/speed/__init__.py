"""Reports about speed as JSON: `ctrace time`, its compile times, `autotune` and `cudagraphs`."""
