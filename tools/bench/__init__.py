"""What measures speed, memory and installations; data/speed/README.md shows what came out."""
