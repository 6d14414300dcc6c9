"""Stages that hold much memory, made when test_verdict.py says so."""

import os
import time

KIB, MIB = 1 << 10, 1 << 20


def table(size):
    """Memory that is really touched."""
    return bytearray(b"\1") * size


IMPORTED = table(230 * MIB)
tables = []
kept = []


def imported(index):
    return index


def at_first_call(index):
    if not tables:
        tables.append(table(150 * MIB))
    return index


def over_1000_calls(index):
    if len(tables) < 1000:
        tables.append(table(150 * KIB))
        time.sleep(0.001)
    return index


def keeps(index):
    kept.append(os.urandom(16) * 512)
    return index
