"""Plans of products with weights of few bits, which are decoded where they are multiplied."""
