"""The commands: each reads, makes one call, writes. Heavy imports are made inside them."""
