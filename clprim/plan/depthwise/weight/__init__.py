"""Plans of a depthwise convolution's gradient in the weight."""
