"""Random functions over arrays, compiled: they have to be what they are uncompiled."""
