"""One resize, bilinear with half-pixel centres, three times: by OpenCV, by scikit-image, and scikit-image's way in NumPy alone.

Python stages of resize_cost.yaml; all give 640 × 640 × 3 uint8. `scikit_image` needs scikit-image in the service's interpreter.
"""

import cv2
import numpy as np

SIDE = 640

cv2.setNumThreads(1)


def opencv(image):
    return cv2.resize(image, (SIDE, SIDE))


def scikit_image(image):
    from skimage.transform import resize

    return back_to_uint8(resize(image, (SIDE, SIDE)))


def numpy_float64(image):
    return back_to_uint8(resize_float64(image, SIDE, SIDE))


def back_to_uint8(image):
    return np.rint(image * 255).astype(np.uint8)


def resize_float64(image, height, width):
    """What skimage.transform.resize(image, (height, width)) does by default, from uint8 to float64 between 0 and 1.

    The image becomes float64; axes that shrink are first smoothed by a Gaussian, so that nothing aliases; then each new pixel is
    a weighted mean of the four around its place. Beyond its border the image is mirrored about its outermost pixels.
    """
    image = image / 255.0
    for axis, extent in enumerate((height, width)):
        image = smooth(image, axis, max(0.0, (image.shape[axis] / extent - 1) / 2))
    top, bottom, down = neighbours(image.shape[0], height)
    left, right, along = neighbours(image.shape[1], width)
    top, bottom, down = top[:, None], bottom[:, None], down[:, None, None]
    along = along[:, None]
    upper = image[top, left] * (1 - along) + image[top, right] * along
    lower = image[bottom, left] * (1 - along) + image[bottom, right] * along
    return upper * (1 - down) + lower * down


def smooth(image, axis, sigma):
    """A Gaussian along one axis, cut off at four standard deviations."""
    radius = int(4 * sigma + 0.5)
    if radius == 0:
        return image
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    weights /= weights.sum()
    padding = [(0, 0)] * 3
    padding[axis] = (radius, radius)
    padded = np.pad(image, padding, mode="reflect")
    extent = image.shape[axis]
    return sum(weight * padded.take(range(i, i + extent), axis) for i, weight in enumerate(weights))


def neighbours(old, new):
    """For each of `new` places along an axis of `old` pixels: the pixels before and after it, and the weight of the second."""
    place = (np.arange(new) + 0.5) * old / new - 0.5
    first = np.floor(place).astype(int)
    return mirrored(first, old), mirrored(first + 1, old), place - first


def mirrored(index, extent):
    index = np.abs(index)
    return np.where(index < extent, index, 2 * (extent - 1) - index)
