"""Convolutions of stride 1 by Winograd's minimal filtering: a fraction of the products.

A tile of m × m outputs is computed from (m + r − 1)² products for every channel and output, instead
of m² · r²: 2.25 times fewer with F(2 × 2, 3 × 3), 4 times fewer with F(4 × 4, 3 × 3). The products
of every element of a tile are a matrix product of their own: tiles × channels, channels × outputs.
`transform` has the algebra and the errors, conv/winograd/fused.cl.jinja the picture.
"""
