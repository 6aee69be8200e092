"""How the loops of Winograd's kernels are cut, as the numbers that they are given."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.plan.conv.winograd.code import WinogradCode
from clprim.plan.conv.winograd.image import Image
from clprim.plan.conv.winograd.tile import WinogradTile
from clprim.plan.kernel import round_up
from clprim.plan.machine import second
from clprim.plan.product.problem import Contraction
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class Cut:
    """How the loops are cut."""

    code: WinogradCode
    image: Image
    groups: int
    channels: int
    tile_lines: int
    tile_columns: int
    tiles: int
    block: int  # Tiles that are transformed before they are multiplied
    chunk: int  # Tiles of a block that are multiplied at a time
    vectors: int
    longest_run: int  # Tiles side by side whose pixels are transformed at a time
    part_bytes: int  # Of transformed weights that stay in a second cache beside the products
    workers: int  # Work-groups of a kernel in which each has a scratch of its own
    kernels: int  # How many there are; see `WinogradTile`
    itemsize: int

    @staticmethod
    def of(
        problem: Contraction,
        code: WinogradCode,
        image: Image,
        tile: WinogradTile,
        traits: DeviceTraits,
    ) -> Cut:
        """Returns the cut that a tile asks for."""
        down, across, walk = code.down, code.across, code.across.walk
        tile_lines, tile_columns = -(-problem.lanes[1] // down.m), -(-problem.lanes[2] // across.m)
        tiles = problem.lanes[0] * tile_lines * tile_columns
        wide = (code.panel // (down.size * code.width) - 1) // code.width * code.width
        chunk = block = min(tile.tiles, tiles)
        vectors = -(-problem.outputs // code.width)
        items = -(-tiles // block)
        if tile.kernels == 2:
            chunk = round_up(block, code.tile_rows)
            items *= -(-vectors // code.tile_vectors)
            channels = round_up(problem.depths[2], code.width)
            itemsize = down.size * across.size * problem.value.itemsize
            room = traits.cache_bytes // (itemsize * channels * problem.groups)
            block = min(tiles, max(1, room // chunk) * chunk)
        return Cut(
            code=code,
            image=image,
            groups=problem.groups,
            channels=problem.depths[2],
            tile_lines=tile_lines,
            tile_columns=tile_columns,
            tiles=tiles,
            block=block,
            chunk=chunk,
            vectors=vectors,
            longest_run=max(1, min(tile_columns, (wide - walk.reads + walk.step) // walk.step)),
            part_bytes=second(traits) // 3,
            workers=min(traits.compute_units, items * problem.groups),
            kernels=tile.kernels,
            itemsize=problem.value.itemsize,
        )

    @property
    def fused(self) -> bool:
        """Whether one kernel does it all."""
        return self.kernels == 1

    @property
    def elements(self) -> int:
        """Of a transformed tile."""
        return self.code.down.size * self.code.across.size

    @property
    def weights(self) -> int:
        """Elements of a transformed weight: of some, elements of a tile have one together."""
        return self.code.down.weights * self.code.across.weights

    @property
    def strips(self) -> int:
        """Of outputs."""
        return -(-self.vectors // self.code.tile_vectors)

    @property
    def strip(self) -> int:
        """Outputs of a strip."""
        return self.code.tile_vectors * self.code.width

    @property
    def tile_groups(self) -> int:
        """Of a block: so many tiles are summed up in registers."""
        return -(-self.block // self.code.tile_rows)

    @property
    def chunk_groups(self) -> int:
        """Of a chunk."""
        return -(-self.chunk // self.code.tile_rows)

    @property
    def part(self) -> int:
        """Channels whose weights are transformed at a time, by a kernel that does so itself."""
        a_channel = self.weights * self.strip * self.itemsize
        return max(1, self.part_bytes // a_channel // self.code.width) * self.code.width

    @property
    def channel_blocks(self) -> int:
        """Vectors of channels."""
        return -(-self.channels // self.code.width)

    # One vector more than all tiles have, between elements: a power of two would send the elements
    # of a tile to the same few places of the cache.

    @property
    def u_element(self) -> int:
        """From one element of transformed weights to the next."""
        if self.kernels == 2:
            return min(self.part, self.channels) * self.strip + self.code.width
        return self.channels * self.strip * (1 if self.fused else self.strips) + self.code.width

    @property
    def u_strip(self) -> int:
        """From one strip of transformed weights to the next."""
        return self.weights * self.u_element if self.fused else self.channels * self.strip

    @property
    def u_size(self) -> int:
        """Transformed weights of a group."""
        return self.weights * self.u_element * (self.strips if self.fused else 1)

    @property
    def v_element(self) -> int:
        """From one element of transformed inputs to the next."""
        rows = self.tile_groups * self.code.tile_rows
        return (rows * self.channel_blocks + 1) * self.code.width

    @property
    def m_strip(self) -> int:
        """From one strip of products to the next."""
        return self.chunk_groups * self.code.tile_rows * self.strip

    @property
    def m_element(self) -> int:
        """From one element of products to the next."""
        return self.m_strip * (self.strips if self.kernels == 3 else 1) + self.code.width

    @property
    def v_size(self) -> int:
        """Transformed inputs of a block."""
        return self.elements * self.v_element

    @property
    def m_size(self) -> int:
        """Products of a block."""
        return self.elements * self.m_element

    @property
    def slice(self) -> int:
        """Scratch of a work-group; again no power of two."""
        before = self.v_size if self.fused else self.u_size
        return round_up(before + self.m_size, 1024) + self.code.width


def image_numbers(problem: Contraction, cut: Cut) -> dict[str, int]:
    """What the transform of the input needs to know."""
    x, image, walk = problem.gathered, cut.image, cut.code.across.walk
    wide = cut.longest_run * walk.step + walk.reads - walk.step
    found = {
        "x_start": image.start,
        "x_group": x.group,
        "x_image": x.lane[0],
        "x_row": x.depth[0],
        "x_channel": x.depth[2],
        "x_rows": image.rows,
        "x_columns": image.columns,
        "rows_before": image.rows_before,
        "columns_before": image.columns_before,
        "channels": cut.channels,
        "channel_blocks": cut.channel_blocks,
        "tile_lines": cut.tile_lines,
        "tile_columns": cut.tile_columns,
        "longest_run": cut.longest_run,
        "line_pitch": round_up(wide, cut.code.width) + 1,
        "v_element": cut.v_element,
    }
    if cut.code.planar_x or cut.code.few:
        found["x_size"] = x.size
    if not cut.code.planar_x:
        found["x_column"] = x.depth[1]
    return found


def output_numbers(problem: Contraction, cut: Cut) -> dict[str, int]:
    """What the transform of products needs to know."""
    return {
        "outputs": problem.outputs,
        "output_vectors": cut.vectors,
        "y_rows": problem.lanes[1],
        "y_columns": problem.lanes[2],
        "tile_lines": cut.tile_lines,
        "tile_columns": cut.tile_columns,
        "m_element": cut.m_element,
    }


def lines_ahead(cut: Cut, tile_groups: int) -> int:
    """Lines of the next strip of weights that are prefetched with every block of channels."""
    return -(-cut.strip // tile_groups) if cut.code.ahead else 0
