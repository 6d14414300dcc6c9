"""BMP, TIFF and PNM files of every kind that their formats have, and damaged ones made of them.

Everything is drawn from a seed, and nothing is stored: `corpus(seed)` yields (name, bytes).
"""

import io
import random
import struct
import zlib

import numpy as np
from PIL import Image

HEIGHT, WIDTH = 21, 37
TIFF_SHORT, TIFF_LONG = 3, 4


def picture(channels, top=256):
    """Gradients with noise, height x width x channels, values below `top`."""
    draw = np.random.default_rng(channels * 1000 + top)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    planes = [((x * (3 + c) + y * (5 - c)) * top // 256 + draw.integers(0, max(2, top // 10), x.shape)) % top
              for c in range(channels)]
    return np.stack(planes, axis=-1)


def packed_rows(values, bits):
    """Rows of integers as bytes: `bits` each, the highest first, rows padded to whole bytes."""
    if bits == 8:
        return [row.astype(np.uint8).tobytes() for row in values]
    rows = []
    for row in values:
        ones = ((row[:, None] >> np.arange(bits - 1, -1, -1)) & 1).astype(np.uint8)
        rows.append(np.packbits(ones.reshape(-1)).tobytes())
    return rows


# BMP ---------------------------------------------------------------------------------------------

def bmp(header=40, bits=24, compression=0, rows=None, palette=b"", masks=None, top_down=False, used=None):
    """A BMP. `rows` stand from the top down, each unpadded; for RLE they are the coded data as bytes."""
    if isinstance(rows, bytes):
        data = rows
    else:
        padded = [row + b"\0" * (-len(row) % 4) for row in rows]
        data = b"".join(padded if top_down else reversed(padded))
    height = -HEIGHT if top_down else HEIGHT
    if header == 12:
        info = struct.pack("<IHHHH", 12, WIDTH, HEIGHT, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", header, WIDTH, height, 1, bits, compression, len(data), 2835, 2835,
                           len(palette) // 4 if used is None else used, 0)
        words = struct.pack("<4I", *masks) if masks else b"\0" * 16
        if header == 40:
            info += words[:12] if masks else b""
        else:
            info = (info + words).ljust(header, b"\0")[:header]
            if header >= 108:
                info = info[:56] + b"BGRs" + info[60:]
    offset = 14 + len(info) + len(palette)
    return b"BM" + struct.pack("<IHHI", offset + len(data), 0, 0, offset) + info + palette + data


def bmp_palette(count, entry_bytes, gray=False):
    draw = random.Random(count)
    colors = [(i * 255 // (count - 1),) * 3 if gray else tuple(draw.randrange(256) for _ in range(3))
              for i in range(count)]
    return b"".join(bytes(color) + b"\0" * (entry_bytes - 3) for color in colors)


def rle(rows, four_bits, skips=False, early_end=False):
    """Run-length coded rows, from the bottom up, with runs, literals and, where asked, skips."""
    out = bytearray()
    for index, row in enumerate(reversed(rows)):
        at = 0
        while at < len(row):
            if skips and index % 5 == 2 and at == 8:
                out += bytes([0, 2, 4, 0])  # four to the right
                at += 4
            elif at % 3 == 0 and len(row) - at >= 7:
                part = row[at:at + 5]
                out += bytes([0, 5])
                packed = (bytes([part[0] << 4 | part[1], part[2] << 4 | part[3], part[4] << 4]) if four_bits
                          else bytes(part))
                out += packed + b"\0" * (len(packed) % 2)
                at += 5
            else:
                value = row[at]
                length = 1
                while at + length < len(row) and row[at + length] == value:
                    length += 1
                out += bytes([length, value << 4 | value if four_bits else value])
                at += length
        if early_end and index == len(rows) // 2:
            break
        out += bytes([0, 0])
    return bytes(out + bytes([0, 1]))


def bmps():
    rgb = [row.tobytes() for row in picture(3).astype(np.uint8)]
    rgba = [row.tobytes() for row in picture(4).astype(np.uint8)]
    for header in (12, 40, 52, 56, 64, 108, 124):
        for top_down in (False, True):
            if header == 12 and top_down:
                continue
            turn = "-topdown" if top_down else ""
            yield f"bmp{header}-24{turn}", bmp(header, 24, 0, rgb, top_down=top_down)
            yield f"bmp{header}-32{turn}", bmp(header, 32, 0, rgba, top_down=top_down)
            for bits in (1, 4, 8):
                indexes = packed_rows(picture(1, 1 << bits)[..., 0], bits)
                for gray in (False, True):
                    colors = bmp_palette(1 << bits, 3 if header == 12 else 4, gray)
                    yield (f"bmp{header}-{bits}{'-gray' if gray else ''}{turn}",
                           bmp(header, bits, 0, indexes, colors, top_down=top_down))
    masks = {
        "565": (16, 0xF800, 0x7E0, 0x1F, 0), "555": (16, 0x7C00, 0x3E0, 0x1F, 0), "444": (16, 0xF00, 0xF0, 0xF, 0),
        "bgrx": (32, 0xFF0000, 0xFF00, 0xFF, 0), "bgra": (32, 0xFF0000, 0xFF00, 0xFF, 0xFF000000),
        "rgbx": (32, 0xFF, 0xFF00, 0xFF0000, 0), "rgba": (32, 0xFF, 0xFF00, 0xFF0000, 0xFF000000),
        "xbgr": (32, 0xFF000000, 0xFF0000, 0xFF00, 0), "abgr": (32, 0xFF000000, 0xFF0000, 0xFF00, 0xFF),
        "101010": (32, 0x3FF00000, 0xFFC00, 0x3FF, 0), "none": (32, 0, 0, 0, 0),
    }
    for name, (bits, *fields) in masks.items():
        rows = [row[:WIDTH * bits // 8] for row in rgba]
        for header in (40, 52, 56, 108, 124):
            yield f"bmp{header}-bitfields-{name}", bmp(header, bits, 3, rows, masks=fields)
    yield "bmp40-16", bmp(40, 16, 0, [row[:WIDTH * 2] for row in rgba])
    for bits, compression in ((8, 1), (4, 2)):
        values = picture(1, 1 << bits)[..., 0] // 3 * 3 % (1 << bits)
        indexes = [bytes(row.tolist()) for row in values.astype(np.uint8)]
        colors = bmp_palette(1 << bits, 4)
        for name, options in (("", {}), ("-skips", {"skips": True}), ("-early", {"early_end": True})):
            yield f"bmp40-rle{bits}{name}", bmp(40, bits, compression, rle(indexes, bits == 4, **options), colors)
    for used in (3, 200):
        indexes = packed_rows(picture(1, 256)[..., 0] % used, 8)
        yield f"bmp40-8-used{used}", bmp(40, 8, 0, indexes, bmp_palette(256, 4)[:used * 4])
        beyond = packed_rows(picture(1, 256)[..., 0], 8)
        yield f"bmp40-8-beyond{used}", bmp(40, 8, 0, beyond, bmp_palette(256, 4)[:used * 4])


# TIFF --------------------------------------------------------------------------------------------

def tiff(values, bits=8, photometric=2, big_endian=False, compression=1, rows_per_strip=8, tile=None, planar=1,
         predictor=1, extra=None, orientation=None, fill_order=None, colors=None, sample_format=None, unknown=False):
    """A TIFF of `values` (height x width x channels). Compression: 1 (none) or 8 (deflate)."""
    order = ">" if big_endian else "<"
    height, width, channels = values.shape

    def code(block):
        if bits == 16:
            # Differences of neighbours, sample by sample.
            if predictor == 2:
                block = np.diff(block, axis=1, prepend=0) % 65536
            raw = block.astype(order + "u2").tobytes()
        else:
            if predictor == 2:
                block = np.diff(block, axis=1, prepend=0) % 256
            raw = b"".join(packed_rows(block.reshape(block.shape[0], -1), bits))
        if fill_order == 2:
            raw = bytes(int(f"{byte:08b}"[::-1], 2) for byte in raw)
        return zlib.compress(raw) if compression == 8 else raw

    planes = [values] if planar == 1 else [values[..., c:c + 1] for c in range(channels)]
    blocks = []
    for plane in planes:
        if tile:
            for top in range(0, height, tile):
                for left in range(0, width, tile):
                    part = plane[top:top + tile, left:left + tile]
                    whole = np.zeros((tile, tile, plane.shape[2]), plane.dtype)
                    whole[:part.shape[0], :part.shape[1]] = part
                    blocks.append(code(whole))
        else:
            blocks += [code(plane[top:top + rows_per_strip]) for top in range(0, height, rows_per_strip)]

    out = bytearray(8)
    places = []
    for block in blocks:
        places.append(len(out))
        out += block + b"\0" * (len(block) % 2)
    entries = []

    def tag(number, kind, *numbers):
        packed = struct.pack(f"{order}{len(numbers)}{'H' if kind == TIFF_SHORT else 'I'}", *numbers)
        if len(packed) > 4:
            place = len(out)
            out.extend(packed + b"\0" * (len(packed) % 2))
            packed = struct.pack(order + "I", place)
        entries.append((number, struct.pack(order + "HHI", number, kind, len(numbers)) + packed.ljust(4, b"\0")))

    tag(256, TIFF_LONG, width)
    tag(257, TIFF_SHORT, height)
    tag(258, TIFF_SHORT, *[bits] * channels)
    tag(259, TIFF_SHORT, compression)
    tag(262, TIFF_SHORT, photometric)
    if fill_order:
        tag(266, TIFF_SHORT, fill_order)
    if not tile:
        tag(273, TIFF_LONG, *places)
        tag(278, TIFF_SHORT, rows_per_strip)
        tag(279, TIFF_LONG, *map(len, blocks))
    if orientation:
        tag(274, TIFF_SHORT, orientation)
    tag(277, TIFF_SHORT, channels)
    tag(284, TIFF_SHORT, planar)
    if predictor == 2:
        tag(317, TIFF_SHORT, 2)
    if colors is not None:
        tag(320, TIFF_SHORT, *colors)
    if tile:
        tag(322, TIFF_SHORT, tile)
        tag(323, TIFF_SHORT, tile)
        tag(324, TIFF_LONG, *places)
        tag(325, TIFF_LONG, *map(len, blocks))
    if extra is not None:
        tag(338, TIFF_SHORT, extra)
    if sample_format is not None:
        tag(339, TIFF_SHORT, *[sample_format] * channels)
    if unknown:
        tag(65000, TIFF_LONG, 7)
    directory = len(out)
    out += struct.pack(order + "H", len(entries)) + b"".join(entry for _, entry in sorted(entries)) + b"\0\0\0\0"
    out[:8] = (b"MM" if big_endian else b"II") + struct.pack(order + "HI", 42, directory)
    return bytes(out)


def pillow_tiffs():
    rgb = Image.fromarray(picture(3).astype(np.uint8))
    gray = Image.fromarray(picture(1)[..., 0].astype(np.uint8))
    for mode in ("1", "L", "P", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "LA", "I;16", "I", "F"):
        if mode == "I;16":
            image = Image.fromarray((picture(1, 65536)[..., 0]).astype(np.uint16))
        elif mode in ("I", "F", "1", "LA"):
            image = gray.convert(mode)
        elif mode == "LAB":
            image = Image.merge("LAB", rgb.split())
        elif mode == "RGBA":
            image = Image.fromarray(picture(4).astype(np.uint8), "RGBA")
        else:
            image = rgb.quantize(64) if mode == "P" else gray if mode == "L" else rgb.convert(mode)
        for compression in (None, "tiff_lzw", "tiff_deflate", "tiff_adobe_deflate", "packbits", "group3", "group4",
                            "tiff_ccitt", "jpeg", "lzma", "zstd", "webp"):
            if compression in ("group3", "group4", "tiff_ccitt") and mode != "1":
                continue
            for predictor in (1, 2):
                if predictor == 2 and compression not in ("tiff_lzw", "tiff_deflate"):
                    continue
                out = io.BytesIO()
                try:
                    image.save(out, "TIFF", compression=compression, **(
                        {"tiffinfo": {317: 2}} if predictor == 2 else {}))
                except Exception:  # not a pair that Pillow writes
                    continue
                yield f"tiff-{mode}-{compression}{'-predictor' if predictor == 2 else ''}", out.getvalue()


def tiffs():
    yield from pillow_tiffs()
    for big in (False, True):
        end = "-big" if big else ""
        for compression in (1, 8):
            for layout in ({}, {"rows_per_strip": HEIGHT}, {"tile": 16}, {"tile": 64}):
                at = f"{end}-{compression}-{'-'.join(f'{k}{v}' for k, v in layout.items())}"
                options = {"big_endian": big, "compression": compression, **layout}
                yield f"tiff-rgb{at}", tiff(picture(3), **options)
                yield f"tiff-planar{at}", tiff(picture(3), planar=2, **options)
                yield f"tiff-gray{at}", tiff(picture(1), photometric=1, **options)
                yield f"tiff-white{at}", tiff(picture(1), photometric=0, **options)
                yield f"tiff-rgb16{at}", tiff(picture(3, 65536), bits=16, **options)
                yield f"tiff-gray16{at}", tiff(picture(1, 65536), bits=16, photometric=1, **options)
                yield f"tiff-white16{at}", tiff(picture(1, 65536), bits=16, photometric=0, **options)
                if compression == 8:
                    yield f"tiff-rgb-predictor{at}", tiff(picture(3), predictor=2, **options)
                    yield f"tiff-rgb16-predictor{at}", tiff(picture(3, 65536), bits=16, predictor=2, **options)
                for bits in (1, 2, 4, 8):
                    if bits < 8:
                        for photometric in (0, 1):
                            yield (f"tiff-gray{bits}-{photometric}{at}",
                                   tiff(picture(1, 1 << bits), bits=bits, photometric=photometric, **options))
                    colors = [v * 257 for v in picture(3).reshape(-1)[:3 << bits].tolist()]
                    yield (f"tiff-palette{bits}{at}",
                           tiff(picture(1, 1 << bits), bits=bits, photometric=3, colors=colors, **options))
    for extra in (0, 1, 2):
        yield f"tiff-extra{extra}", tiff(picture(4), extra=extra)
        yield f"tiff-planar-extra{extra}", tiff(picture(4), extra=extra, planar=2)
        yield f"tiff-gray-extra{extra}", tiff(picture(2), photometric=1, extra=extra)
    yield "tiff-four", tiff(picture(4))
    for orientation in range(1, 9):
        yield f"tiff-orientation{orientation}", tiff(picture(3), orientation=orientation)
    for sample_format in (1, 2, 3, 4):
        yield f"tiff-format{sample_format}", tiff(picture(3), sample_format=sample_format)
        yield f"tiff-gray16-format{sample_format}", tiff(picture(1, 65536), bits=16, photometric=1,
                                                         sample_format=sample_format)
    for bits, photometric in ((1, 1), (8, 1), (8, 2)):
        yield f"tiff-fill{bits}-{photometric}", tiff(picture(1 if photometric == 1 else 3, 1 << bits), bits=bits,
                                                     photometric=photometric, fill_order=2)
    yield "tiff-unknown-tag", tiff(picture(3), unknown=True)
    yield "tiff-cmyk", tiff(picture(4), photometric=5)
    yield "tiff-ycbcr", tiff(picture(3), photometric=6)
    yield "tiff-lab", tiff(picture(3), photometric=8)


# PNM ---------------------------------------------------------------------------------------------

def pnms():
    for top in (1, 15, 100, 255, 256, 1000, 65535):
        for kind, channels in ((2, 1), (3, 3), (5, 1), (6, 3)):
            values = picture(channels, top + 1)
            head = f"P{kind}\n# made by a script\n{WIDTH} {HEIGHT}\n{top}\n".encode()
            if kind < 4:
                body = "\n".join(" ".join(map(str, row.reshape(-1).tolist())) for row in values).encode() + b"\n"
            else:
                body = values.astype(">u2" if top > 255 else "u1").tobytes()
            yield f"pnm-p{kind}-{top}", head + body
    bits = picture(1, 2)[..., 0]
    head = f"{WIDTH} {HEIGHT}\n".encode()
    yield "pnm-p1", b"P1\n" + head + b"\n".join(b" ".join(b"%d" % v for v in row) for row in bits) + b"\n"
    yield "pnm-p1-dense", b"P1\n" + head + b"\n".join(b"".join(b"%d" % v for v in row) for row in bits) + b"\n"
    yield "pnm-p4", b"P4\n" + head + b"".join(packed_rows(bits, 1))
    body = picture(3).astype(np.uint8).tobytes()
    for name, head in (("tabs", b"P6\t37\t21\t255\t"), ("return", b"P6\r37\r21\r255\r"),
                       ("comment-return", b"P6\n#a\r37 21 255\n"), ("comment-last", b"P6 37 21 255#a\n"),
                       ("comment-behind", b"P6 37 21 #a\n255\n"), ("comment-inside", b"P6 3#a\n7 21 255\n"),
                       ("two-breaks", b"P6 37 21 255\r\n"), ("zeros", b"P6 0037 00000000000021 0255\n"),
                       ("plus", b"P6 +37 21 255\n"), ("float", b"P6 37.0 21 255\n"), ("no-top", b"P6 37 21\n")):
        yield f"pnm-head-{name}", head + body


# Damage ------------------------------------------------------------------------------------------

EXTREMES = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 64, 127, 128, 254, 255, 256, 257, 4096, 32767, 32768, 65535, 65536,
            1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)


def tiff_directory(file):
    order = ">" if file[:2] == b"MM" else "<"
    start, = struct.unpack_from(order + "I", file, 4)
    count, = struct.unpack_from(order + "H", file, start)
    return start, 2 + 12 * count + 4


def damaged(file, draw):
    """`file` with one to three damages: where its header is as often as anywhere else."""
    out = bytearray(file)
    if draw.random() < 0.15:
        return bytes(out[:draw.randrange(len(out))])
    for _ in range(draw.choice((1, 1, 1, 1, 2))):
        start, size = 0, len(out)
        if draw.random() < 0.5:
            start, size = tiff_directory(file) if file[:2] in (b"II", b"MM") else (0, min(70, len(out)))
        at = min(start + draw.randrange(size), len(out) - 1)
        kind = draw.choice("bbbssswwrrd")
        if kind == "b":  # a bit
            out[at] ^= 1 << draw.randrange(8)
        elif kind == "s":  # a byte
            out[at] = draw.randrange(256)
        elif kind == "w":  # a number
            width = draw.choice((2, 4))
            order = ">" if file[:2] == b"MM" else "<"
            value = draw.choice(EXTREMES) & ((1 << 8 * width) - 1)
            out[at:at + width] = struct.pack(order + ("H" if width == 2 else "I"), value)[:max(0, len(out) - at)]
        elif kind == "r":  # a row of bytes
            for i in range(at, min(at + draw.randrange(1, 40), len(out))):
                out[i] = draw.randrange(256)
        else:  # bytes that are missing
            del out[at:at + draw.randrange(1, 9)]
    return bytes(out)


def corpus(seed, damages):
    """(name, file): every kind as it is, then each with `damages` damages."""
    files = [*bmps(), *tiffs(), *pnms()]
    yield from files
    for name, file in files:
        draw = random.Random(f"{seed} {name}")
        for i in range(damages):
            yield f"{name}~{i}", damaged(file, draw)
