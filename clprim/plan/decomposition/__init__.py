"""Plans of decompositions of small matrices, and of what follows from them."""
