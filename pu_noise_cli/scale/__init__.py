"""Who does the work: this process or Dask, and outputs in shards. May import tables."""
