"""Convolutions by Winograd's minimal filtering: a fraction of the products.

A tile of m × m outputs is computed from (m + r − 1)² products for every channel and output, instead
of m² · r²: 2.25 times fewer with F(2 × 2, 3 × 3), 4 times fewer with F(4 × 4, 3 × 3). With windows
of stride 2 it is (2m + r − 2)² products, 1.44 and 1.78 times fewer. The products of every element
of a tile are a matrix product of their own: tiles × channels, channels × outputs.
`transform` has the algebra and the errors, conv/winograd/fused.cl.jinja the picture.
"""
