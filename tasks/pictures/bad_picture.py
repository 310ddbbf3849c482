"""Errors for bytes that cannot be judged as a picture: unreadable anywhere, or only on this machine."""

from tasks.errors import InputError

MAX_MEGAPIXELS = 64


class BadPicture(InputError):
    """Bytes that cannot be judged as a picture; the message names the content found and the formats allowed."""


class NoReader(BadPicture):
    """A file of a known kind that cannot be shown here: its format has no reader, or it is only a pointer.

    The user must install a program, fetch the file or convert it; the picture's author is not at fault.
    """


def check_megapixels(size: tuple[int, int]) -> float:
    """Return the picture's megapixels, from its width and height. Raises BadPicture above `MAX_MEGAPIXELS`."""
    width, height = size
    pixels = width * height / 1e6
    if pixels > MAX_MEGAPIXELS:
        raise BadPicture(f"{pixels:g} megapixels ({width}x{height}), allowed are {MAX_MEGAPIXELS}")
    return pixels
