"""Plans of depthwise convolutions."""
