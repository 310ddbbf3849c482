"""Why bytes are no picture that can be judged, in two kinds: nobody could read them, or only this machine cannot."""

from tasks.errors import InputError

MAX_MEGAPIXELS = 64


class BadPicture(InputError):
    """The bytes are no picture that can be judged; says what was found and what is allowed."""


class NoReader(BadPicture):
    """A file that is known, and that nothing here can show: its format has no reader, or it is only a pointer.

    What is missing is a program or a step of the user's, so that it says nothing of whoever made the picture.
    """


def check_megapixels(size: tuple[int, int]) -> float:
    """The picture's millions of pixels, from its width and height. Raises BadPicture above `MAX_MEGAPIXELS`."""
    width, height = size
    pixels = width * height / 1e6
    if pixels > MAX_MEGAPIXELS:
        raise BadPicture(f"{pixels:g} megapixels ({width}x{height}), allowed are {MAX_MEGAPIXELS}")
    return pixels
