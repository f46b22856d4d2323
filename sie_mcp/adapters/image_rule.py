"""How a model wants its images: size, crop, colours and patches. Data only."""

from dataclasses import dataclass

# Rows and columns of patches, or of pixels: height first.
Size = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ImageRule:
    """What becomes of a picture before the tower reads it, in this order.

    Attributes:
        patch_size: Pixels of a patch's side.
        shortest_edge: The picture is resized so that its shorter side has so many pixels; 0: not.
        size: It is resized to this, whatever its shape; None: not.
        max_patches: It is resized to at most so many patches, its shape about kept; 0: not.
        resample: Pillow's number of the filter that resizes.
        crop: This much is cut out of its middle, black where there is no picture; None: all is
            kept.
        scale: What a colour from 0 to 255 is multiplied by, red, green, blue.
        shift: What is then added.
        has_colours_last: A patch lists the colours pixel by pixel, not plane by plane.
        num_extra: Tokens that the tower puts before the patches.
    """

    patch_size: int
    shortest_edge: int = 0
    size: Size | None = None
    max_patches: int = 0
    resample: int = 3
    crop: Size | None = None
    scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
    shift: tuple[float, float, float] = (0.0, 0.0, 0.0)
    has_colours_last: bool = False
    num_extra: int = 0

    @property
    def patch_numbers(self) -> int:
        """How many numbers describe a patch."""
        return 3 * self.patch_size**2
