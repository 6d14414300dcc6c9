"""Python stages with a fault each, planted for test_doctor.py."""

import os
import time

import numpy as np

kept, calls = [], 0


def sound(index):
    return np.full((32, 32, 3), index % 251, np.uint8)


def keeps(image):
    kept.append(os.urandom(24 << 10))
    return image


def keeps_little(image):
    kept.append(os.urandom(4 << 10))
    return image


def slower(image):
    global calls
    calls += 1
    time.sleep(0.0002 + calls * 0.000004)
    return image


def dies(image):
    if image[0, 0, 0] == 77:
        os.abort()
    return image


def refuses(image):
    raise ValueError("no image is good enough")


def same(image):
    return image
