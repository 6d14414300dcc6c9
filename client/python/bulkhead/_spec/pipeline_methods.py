"""Methods of bulkhead.Pipeline. Written by update_pipeline.py from the .proto files."""

from __future__ import annotations

import builtins
from typing import (
    Any,
    Dict,
    Literal,
    Mapping,
    Optional,
    Sequence,
    Type,
    TypedDict,
    TypeVar,
    Union,
)

from .pipeline_base import PathLike, PipelineBase, given
from .pipeline_calls import names_options

_Self = TypeVar("_Self", bound=PipelineBase)
BoxFormat = Literal["xyxy", "xywh", "cxcywh"]
Color = Literal["rgb", "bgr", "gray", "rgba"]
Compression = Literal["none", "gzip", "zlib"]
DType = Literal[
    "uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "bool", "bytes", "uint32", "uint64", "complex64", "complex128",
]
DctMethod = Literal["islow", "ifast"]
Delimiter = Literal["tab", "space", "comma", "semicolon"]
ErrorAction = Literal["fail", "substitute", "blank"]
ImageLayout = Literal["nhwc", "nchw"]
Interpolation = Literal["nearest", "linear", "area", "cubic"]
LastBatch = Literal["drop", "pad", "partial"]
MixtureStop = Literal["first_exhausted", "all_exhausted", "never"]
NormalizeAt = Literal["worker", "trainer"]
Overflow = Literal["error", "truncate"]
PixelCenters = Literal["half_pixel", "corner", "aligned"]
Rounding = Literal["truncate", "round"]


class Frames(TypedDict, total=False):
    """Samples of several consecutive images of a list or a folder: frames of a video, slices of a
    scan. Images whose paths lie in the same folder make a clip, in the order of the source; no
    window goes beyond its clip. The first image is called `image/0`, the next `image/1` and so
    on; stages that name `image` work on each of them, with the same random numbers. Labels and
    `path` are those of the first. A split keeps a clip in one part.

    window: Images of one sample. Allowed: 2 to 64. Required.
    stride: Images from the begin of one sample to that of the next, within a clip; less than
        `window` makes samples overlap. Default 1.
    """

    window: int
    stride: int


class StageOutput(TypedDict, total=False):
    """One result of a user's stage.

    name: Feature that is created or replaced. Required.
    dtype: Element type. Allowed: `uint8`, `int8`, `uint16`, `int16`, `int32`, `int64`,
        `float16`, `bfloat16`, `float32`, `float64`, `bool`, `bytes`, `uint32`, `uint64`,
        `complex64`, `complex128`. Required.
    shape: Shape of one sample; the first dimension may be -1 (variable), which needs max_count.
        Absent: a scalar.
    max_count: Bound of the variable dimension; with `dtype: bytes`, the largest number of
        bytes.
    """

    name: str
    dtype: DType
    shape: Union[int, Sequence[int]]
    max_count: int


class TruncatedImages(TypedDict, total=False):
    """Accepts JPEG files that end early.

    accept: The share of its rows that such a file must have; missing rows become gray. Allowed:
        above 0, at most 1. Required.
    """

    accept: float


@names_options
class Feature:
    """How features of records are read; for `Pipeline.tfrecord` and `Pipeline.tar`."""

    @staticmethod
    def bytes(
        *,
        max_bytes: Optional[int] = None,
        default: Optional[str] = None,
        length: Optional[str] = None,
        shape: Optional[Union[int, Sequence[int]]] = None,
        max_count: Optional[int] = None,
        key: Optional[str] = None,
        sequence: Optional[str] = None,
    ) -> Dict[str, Any]:
        """A byte string: an encoded image, or text; in a tar a whole member, or a JSON string.
        With a `shape` a list of byte strings, each padded with zeros to max_bytes: uint8
        [shape…, max_bytes]; without max_bytes a list of encoded images. Not for `tar`.

        max_bytes: Largest length in bytes; required for lists but those of images, and to
            deliver the string itself as an output.
        default: Value for records that lack the feature; without it a missing feature is a
            sample error. Not for lists.
        length: Name of an additional int64 feature with the length in bytes; for a list, with
            the length of each string.
        shape: Shape of a list of byte strings; absent: a single one. The first dimension may be
            -1 (variable), which needs max_count and max_bytes. A missing list of variable shape
            is empty.
        max_count: Bound of the variable dimension; a record with more is a sample error.
        key: The record's name for it, where it differs.
        sequence: The axis of a list of steps of a tf.train.SequenceExample.
        """
        options = given(
            max_bytes=max_bytes, default=default, length=length, shape=shape, max_count=max_count,
        )
        return given(key=key, sequence=sequence, **{"bytes": options})

    @staticmethod
    def int64(
        *,
        shape: Optional[Union[int, Sequence[int]]] = None,
        max_count: Optional[int] = None,
        default: Optional[Union[int, Sequence[int]]] = None,
        classes: Optional[Union[str, Sequence[str]]] = None,
        key: Optional[str] = None,
        sequence: Optional[str] = None,
    ) -> Dict[str, Any]:
        """A list of int64. In a tar, integers written as text with spaces, commas or line ends
        between them, or a JSON integer or array of them.

        shape: Shape of the feature; absent: a scalar. The first dimension may be -1 (variable),
            which needs max_count.
        max_count: Bound of the variable dimension; a record with more is a sample error.
        default: Value for records that lack the feature: one for all elements, or one for each.
            Without it a missing feature of fixed shape is a sample error; one of variable shape
            is empty.
        classes: Names of the classes, in the order of their numbers, for a label: what batches
            call them. No value is checked against them, and they change no byte.
        key: The record's name for it, where it differs.
        sequence: The axis of a list of steps of a tf.train.SequenceExample.
        """
        options = given(shape=shape, max_count=max_count, default=default, classes=classes)
        return given(key=key, sequence=sequence, **{"int64": options})

    @staticmethod
    def float(
        *,
        shape: Optional[Union[int, Sequence[int]]] = None,
        max_count: Optional[int] = None,
        default: Optional[Union[builtins.float, Sequence[builtins.float]]] = None,
        key: Optional[str] = None,
        sequence: Optional[str] = None,
    ) -> Dict[str, Any]:
        """A list of float32. In a tar, numbers written as text with spaces, commas or line ends
        between them, or a JSON number or array of them.

        shape: As for `int64`.
        max_count: As for `int64`.
        default: As for `int64`.
        key: The record's name for it, where it differs.
        sequence: The axis of a list of steps of a tf.train.SequenceExample.
        """
        options = given(shape=shape, max_count=max_count, default=default)
        return given(key=key, sequence=sequence, **{"float": options})

    @staticmethod
    def tensor(
        dtype: DType,
        shape: Union[int, Sequence[int]],
        *,
        max_count: Optional[int] = None,
        cast: Optional[builtins.bool] = None,
        allow_missing: Optional[builtins.bool] = None,
        key: Optional[str] = None,
    ) -> Dict[str, Any]:
        """A byte string written by tf.io.serialize_tensor; in a tar a member written by
        numpy.save, or a JSON array of numbers.

        dtype: Element type to deliver. Allowed: `uint8`, `int8`, `uint16`, `int16`, `int32`,
            `int64`, `float16`, `bfloat16`, `float32`, `float64`, `bool`. Required.
        shape: Expected shape; the first dimension may be -1 (variable), which needs max_count.
            A tensor of shape [0] counts as an empty one of the expected rank. Required.
        max_count: Bound of the variable dimension; a tensor with more is a sample error.
        cast: Convert tensors that were written with another element type, as C++ converts
            numbers; without it they are sample errors. Default false.
        allow_missing: A record without the feature counts as an empty tensor (variable shapes
            only). Default false.
        key: The record's name for it, where it differs.
        """
        options = given(
            dtype=dtype, shape=shape, max_count=max_count, cast=cast, allow_missing=allow_missing,
        )
        return given(key=key, **{"tensor": options})

    @staticmethod
    def boxes(
        max_count: int,
        *,
        key: Optional[str] = None,
    ) -> Dict[str, Any]:
        """Boxes that a record holds as four lists of float32, as TensorFlow's Object Detection API
        writes them: `<key>/xmin`, `<key>/ymin`, `<key>/xmax` and `<key>/ymax`. Gives float32
        [-1, 4] with a row for each box: xmin, ymin, xmax, ymax. A record without the lists has
        no box; lists of unequal length are a sample error. Not for `tar`.

        max_count: Bound of the number of boxes; a record with more is a sample error. Required.
        key: The record's name for it, where it differs.
        """
        options = given(max_count=max_count)
        return given(key=key, **{"boxes": options})


@names_options
class Sources(PipelineBase):
    __slots__ = ()

    @classmethod
    def tfrecord(
        cls: Type[_Self],
        files: Union[PathLike, Sequence[PathLike]],
        features: Mapping[str, Union[str, Mapping[str, Any]]],
        *,
        compression: Optional[Compression] = None,
        base_dir: Optional[PathLike] = None,
    ) -> _Self:
        """Records of TFRecord files, in the order of the files' sorted paths. Both checksums of
        every record are verified.

        files: Paths, globs or URLs of objects (`s3://…`), relative to the spec's folder: `*`,
            `?`, `[…]`; `**` is refused: name each level of folders with `*`; a `[` of a name is
            written `[[]`. A glob that matches nothing is an error, and so is a file that is
            named twice. Required.
        compression: How the files are compressed. Allowed: `none`, `gzip`, `zlib`. Default:
            found from each file's first bytes.
        features: What to read from each record, by the name under which stages and batches
            know it: `{"image": Feature.bytes(key="img_raw"), "label": "int64"}`.
        base_dir: Folder that relative paths start from. Default: the current one, when the
            Loader is made.
        """
        options = given(files=files, compression=compression)
        return cls._source("tfrecord", options, base_dir, features=features)

    @classmethod
    def image_list(
        cls: Type[_Self],
        *,
        path: Optional[PathLike] = None,
        entries: Optional[Union[str, Sequence[str]]] = None,
        delimiter: Optional[Delimiter] = None,
        header: Optional[bool] = None,
        images: Optional[Union[str, Sequence[str]]] = None,
        labels: Optional[Union[str, Sequence[str]]] = None,
        label_dtype: Optional[DType] = None,
        unlabeled: Optional[bool] = None,
        max_path_bytes: Optional[int] = None,
        classes: Optional[Union[str, Sequence[str]]] = None,
        classes_file: Optional[str] = None,
        frames: Optional[Frames] = None,
        base_dir: Optional[PathLike] = None,
    ) -> _Self:
        """A text file with one sample per line: image path(s), then label(s). Empty lines and
        lines that begin with `#` are ignored. Gives the features named by `images` (encoded
        bytes) and `labels`, and `path`. The labels of a column are all numbers or all names of
        classes, whose numbers are delivered. Between commas and semicolons, a column that
        begins with `"` is quoted, as in CSV files.

        path: The list, a path or a URL (`s3://…`); images in it are URLs, or paths relative to
            the list's own folder. Either this or `entries`.
        entries: The lines themselves, for small lists; image paths are relative to the spec's
            folder.
        delimiter: What separates columns. Allowed: `tab`, `space`, `comma`, `semicolon`.
            Default: tab if the first line has one, else comma, else space.
        header: The first line holds column titles and is ignored; never guessed. Default false.
        images: Names of the path columns, in their order. Default `image`.
        labels: Names of the label columns, which follow the path columns. Default `label`.
        label_dtype: Element type of the labels. Allowed: `int64`, `float32`. Default `int64`.
        unlabeled: The list has no label columns. Default false.
        max_path_bytes: Width of the `path` output in bytes; a longer path is an error that
            names its line. Allowed: 1 to 65,536. Default 256.
        classes: Names of the classes, in the order of their numbers, for labels that are names.
            A label that is not among them is an error that names its line. Default: the names
            that a label column holds, sorted by their bytes.
        classes_file: UTF-8 file with these names, one per line, instead of `classes`; relative
            to the spec's folder, or a URL. The names count as if `classes` held them.
        frames: Delivers windows of consecutive lines: several images a sample. Default: each
            line is a sample.
        base_dir: Folder that relative paths start from. Default: the current one, when the
            Loader is made.
        """
        options = given(
            path=path, entries=entries, delimiter=delimiter, header=header, images=images,
            labels=labels, label_dtype=label_dtype, unlabeled=unlabeled,
            max_path_bytes=max_path_bytes, classes=classes, classes_file=classes_file,
            frames=frames,
        )
        return cls._source("image_list", options, base_dir)

    @classmethod
    def image_folder(
        cls: Type[_Self],
        path: PathLike,
        *,
        extensions: Optional[Union[str, Sequence[str]]] = None,
        unlabeled: Optional[bool] = None,
        max_path_bytes: Optional[int] = None,
        classes: Optional[Union[str, Sequence[str]]] = None,
        classes_file: Optional[str] = None,
        frames: Optional[Frames] = None,
        base_dir: Optional[PathLike] = None,
    ) -> _Self:
        """A folder whose sub-folders are classes: the label is the index of the sub-folder's name
        in sorted order, or in `classes`. Images are found at any depth below a class, by their
        endings, and ordered by path. Gives `image` (encoded bytes), `label` (int64) and `path`
        (relative to the folder).

        path: The folder, relative to the spec's folder, or the URL of a folder of objects
            (`s3://…`). Required.
        extensions: File endings that count as images, without the dot, in any case. (Others,
            such as GIF, are not decoded.) Default: bmp, jpeg, jpg, pgm, png, ppm, tif, tiff,
            webp.
        unlabeled: The folder holds images directly, without classes; `label` is not given.
            Default false.
        max_path_bytes: Width of the `path` output in bytes; a longer path is an error. Allowed:
            1 to 65,536. Default 256.
        classes: Names of the sub-folders, in the order of their numbers; a sub-folder with
            images that is not among them is an error. Default: all sub-folders, sorted by the
            bytes of their names.
        classes_file: A UTF-8 file with these names, one a line, in place of `classes`; relative
            to the spec's folder, or a URL.
        frames: Delivers windows of consecutive images: several images a sample. Default: each
            image is a sample.
        base_dir: Folder that relative paths start from. Default: the current one, when the
            Loader is made.
        """
        options = given(
            path=path, extensions=extensions, unlabeled=unlabeled, max_path_bytes=max_path_bytes,
            classes=classes, classes_file=classes_file, frames=frames,
        )
        return cls._source("image_folder", options, base_dir)

    @classmethod
    def range(
        cls: Type[_Self],
        size: int,
        *,
        base_dir: Optional[PathLike] = None,
    ) -> _Self:
        """The integers 0 … size − 1, as the int64 scalar `index`. Needs no data; for trials and
        for index-only training.

        size: Number of integers. Required.
        base_dir: Folder that relative paths start from. Default: the current one, when the
            Loader is made.
        """
        options = given(size=size)
        return cls._source("range", options, base_dir)

    @classmethod
    def tar(
        cls: Type[_Self],
        files: Union[PathLike, Sequence[PathLike]],
        *,
        features: Optional[Mapping[str, Union[str, Mapping[str, Any]]]] = None,
        compression: Optional[Compression] = None,
        base_dir: Optional[PathLike] = None,
    ) -> _Self:
        """Samples of tar files, as WebDataset writes them, in the order of the files' sorted
        paths. Members that stand next to each other and whose names agree up to the first dot
        of the last component are one sample; what follows that dot is the member's ending, in
        lower case. Without `features` gives `image` (the encoded bytes of `jpg`, `jpeg`, `png`
        or `webp`), `label` (the number in `cls`) and `path` (what the names agree in). Names
        are data, never paths to open.

        files: Paths, globs or URLs of objects, relative to the spec's folder, with the rules of
            TFRecord files. Required.
        compression: How the files are compressed. Allowed: `none`, `gzip`, `zlib`. Default:
            found from each file's first bytes.
        features: What to read from each record, by the name under which stages and batches
            know it: `{"image": Feature.bytes(key="jpg;png"), "label": Feature.int64(key="cls")}`.
        base_dir: Folder that relative paths start from. Default: the current one, when the
            Loader is made.
        """
        options = given(files=files, compression=compression)
        return cls._source("tar", options, base_dir, features=features)


@names_options
class DecodeStages(PipelineBase):
    __slots__ = ()

    def decode_image(
        self: _Self,
        *,
        input: Optional[str] = None,
        channels: Optional[int] = None,
        color: Optional[Color] = None,
        max_pixels: Optional[int] = None,
        exif_orientation: Optional[bool] = None,
        keep_16_bit: Optional[bool] = None,
        truncated: Optional[TruncatedImages] = None,
        fancy_upsampling: Optional[bool] = None,
        dct: Optional[DctMethod] = None,
        scale: Optional[int] = None,
    ) -> _Self:
        """Decodes an image file into a uint8 image [height, width, channels]: JPEG, PNG and WebP,
        other formats through OpenCV's codecs.

        input: The encoded image, which the decoded one replaces. Default `image`.
        channels: 1 (gray), 3 (rgb) or 4 (rgba): a short form of `color`. If both are given,
            they must agree. Default: that of `color`.
        color: `rgb`, `bgr`, `gray` (the decoder's own: a JPEG's luma), `rgba` (alpha 255 where
            the file has none). Default `rgb`.
        max_pixels: Largest number of pixels that an image may have by its header; more is a
            sample error. Default 36,000,000.
        exif_orientation: Rotate and mirror the image by the EXIF orientation of its JPEG, PNG
            (eXIf before the pixels) or WebP file; unreadable EXIF is ignored. Default false.
        keep_16_bit: Return a uint16 image: 16-bit values of a PNG as they are, 8-bit values
            times 257. If false, 16-bit values are reduced to their upper 8 bits. Stages that
            resize, crop or flip take uint8 only; `normalize`, `cast` and stages of your own
            take uint16. Default false.
        truncated: `{accept: 0.9}` accepts a JPEG file that ends early if at least this share of
            its rows (above 0, at most 1) was decoded before the data ran out; the other rows
            are gray. Other damage is still an error, and so is a progressive JPEG or a file of
            another format that ends early. Default: such a file is a sample error.
        fancy_upsampling: Interpolate a JPEG's subsampled colours; false repeats them. Default
            true.
        dct: `islow` (accurate), or `ifast`, whose pixels are slightly off. Default `islow`.
        scale: 1, 2, 4 or 8: decode a JPEG at this fraction (1/1 to 1/8) of its size, rounded
            up, which is much faster. The pixels are those of no resize; other formats are
            decoded at full size. Default 1.
        """
        options = given(
            input=input, channels=channels, color=color, max_pixels=max_pixels,
            exif_orientation=exif_orientation, keep_16_bit=keep_16_bit, truncated=truncated,
            fancy_upsampling=fancy_upsampling, dct=dct, scale=scale,
        )
        return self._stage("stages", "decode_image", options)


@names_options
class GeometryStages(PipelineBase):
    __slots__ = ()

    def resize(
        self: _Self,
        *,
        input: Optional[str] = None,
        size: Optional[Union[int, Sequence[int]]] = None,
        interpolation: Optional[Interpolation] = None,
        shorter_side: Optional[int] = None,
        longer_side: Optional[int] = None,
        max_size: Optional[int] = None,
        factor: Optional[float] = None,
        rounding: Optional[Rounding] = None,
        antialias: Optional[bool] = None,
        centers: Optional[PixelCenters] = None,
    ) -> _Self:
        """Resizes a uint8 image, as OpenCV's resize does: half-pixel centres, no antialiasing (use
        `area` or `antialias` to shrink without aliasing). Takes exactly one of size,
        shorter_side, longer_side and factor.

        input: Image that is read and replaced. Default `image`.
        size: [height, width] of the result, or one number for a square. Allowed: 1 to 65,535.
        interpolation: `nearest`, `linear`, `area` (at most four channels), `cubic`. Default
            `linear`.
        shorter_side: Length of the shorter side in pixels; the longer side keeps the aspect
            ratio, as in torchvision. Allowed: 1 to 65,535.
        longer_side: Length of the longer side in pixels; the shorter side keeps the aspect
            ratio. Allowed: 1 to 65,535.
        max_size: With `shorter_side`: largest length of the longer side, in pixels. A longer
            side that would exceed it gets this length, and the shorter side keeps the aspect
            ratio. Allowed: 1 to 65,535.
        factor: Factor that both sides are multiplied by. Allowed: above 0, at most 1000.
        rounding: How computed sides are rounded to whole pixels: `truncate` (as torchvision) or
            `round` (halves up). A side is at least 1. Default `truncate`.
        antialias: Smooth when `linear` or `cubic` shrinks an image. Gives the pixels of
            Pillow's `Image.resize`, bit for bit. (torchvision's antialiased resize of tensors
            differs by 1 in some values, with `cubic` by a few more at hard edges, since Pillow
            clamps to 0 … 255 between its two passes.) Alpha is treated like any other channel.
            Default false.
        centers: Where the input is sampled: `half_pixel`, or, with `linear` and `nearest`,
            `corner` (TensorFlow 1's `resize_images`) or `aligned` (its `align_corners`), whose
            float32 results are rounded to nearest, halves to even. Default `half_pixel`.
        """
        options = given(
            input=input, size=size, interpolation=interpolation, shorter_side=shorter_side,
            longer_side=longer_side, max_size=max_size, factor=factor, rounding=rounding,
            antialias=antialias, centers=centers,
        )
        return self._stage("stages", "resize", options)

    def center_crop(
        self: _Self,
        size: Union[int, Sequence[int]],
        *,
        input: Optional[str] = None,
    ) -> _Self:
        """Cuts out the middle of an image. An image smaller than the crop is a sample error.

        size: [height, width] of the crop, or one number for a square; a smaller image is a
            sample error. Allowed: 1 to 65,535. Required.
        input: Image that is read and replaced. Default `image`.
        """
        options = given(size=size, input=input)
        return self._stage("stages", "center_crop", options)

    def random_resized_crop(
        self: _Self,
        size: Union[int, Sequence[int]],
        *,
        input: Optional[str] = None,
        scale: Optional[Union[float, Sequence[float]]] = None,
        ratio: Optional[Union[float, Sequence[float]]] = None,
        interpolation: Optional[Interpolation] = None,
        antialias: Optional[bool] = None,
    ) -> _Self:
        """Cuts a random rectangle and resizes it. The rectangle is chosen as in torchvision: up to
        ten draws of an area and a log-uniform aspect ratio; if none fits, the largest central
        rectangle of an allowed ratio.

        size: [height, width] of the result, or one number for a square. Allowed: 1 to 65,535.
            Required.
        input: Image that is read and replaced. Default `image`.
        scale: [low, high] of the rectangle's area, as a share of the image's area. Allowed:
            above 0, at most 1. Default [0.08, 1].
        ratio: [low, high] of the rectangle's width / height. Allowed: above 0, at most 1000.
            Default [0.75, 1.3333333333333333].
        interpolation: Interpolation of the resize, as for `resize`. Allowed: `nearest`,
            `linear`, `area`, `cubic`. Default `linear`.
        antialias: Smooth when `linear` or `cubic` shrinks the rectangle, as for `resize`.
            torchvision does so by default. It takes longer, and the stages that follow do not
            run in one pass with it. Default false.
        """
        options = given(
            size=size, input=input, scale=scale, ratio=ratio, interpolation=interpolation,
            antialias=antialias,
        )
        return self._stage("stages", "random_resized_crop", options)

    def random_horizontal_flip(
        self: _Self,
        *,
        input: Optional[str] = None,
        probability: Optional[float] = None,
    ) -> _Self:
        """Mirrors an image left to right.

        input: Image that is read and replaced. Default `image`.
        probability: Probability of mirroring left and right. Allowed: 0 to 1. Default 0.5.
        """
        options = given(input=input, probability=probability)
        return self._stage("stages", "random_horizontal_flip", options)

    def random_vertical_flip(
        self: _Self,
        *,
        input: Optional[str] = None,
        probability: Optional[float] = None,
    ) -> _Self:
        """Mirrors an image top to bottom.

        input: Image that is read and replaced. Default `image`.
        probability: Probability of mirroring top and bottom. Allowed: 0 to 1. Default 0.5.
        """
        options = given(input=input, probability=probability)
        return self._stage("stages", "random_vertical_flip", options)

    def random_crop(
        self: _Self,
        size: Union[int, Sequence[int]],
        *,
        input: Optional[str] = None,
        padding: Optional[Union[int, Sequence[int]]] = None,
        fill: Optional[Union[int, Sequence[int]]] = None,
    ) -> _Self:
        """Cuts a rectangle of fixed size at a random place, as torchvision's RandomCrop: first
        pads the image, then chooses among all places with equal probability. A smaller image is
        a sample error.

        size: [height, width] of the crop, or one number for a square; an image that is smaller,
            padding included, is a sample error. Allowed: 1 to 65,535. Required.
        input: Image that is read and replaced. Default `image`.
        padding: Pixels added before the crop: [top, bottom, left, right] (torchvision has
            another order), or one number for all sides. Allowed: 0 to 65,535.
        fill: Value of added pixels: one number, or one per channel. Allowed: 0 to 255. Default
            0.
        """
        options = given(size=size, input=input, padding=padding, fill=fill)
        return self._stage("stages", "random_crop", options)

    def pad(
        self: _Self,
        *,
        input: Optional[str] = None,
        padding: Optional[Union[int, Sequence[int]]] = None,
        size: Optional[Union[int, Sequence[int]]] = None,
        fill: Optional[Union[int, Sequence[int]]] = None,
    ) -> _Self:
        """Adds pixels around an image.

        input: Image that is read and replaced. Default `image`.
        padding: Pixels to add: [top, bottom, left, right], or one number for all sides. Either
            this or `size`. Allowed: 0 to 65,535.
        size: [height, width], or one number for a square: pixels are added at the bottom and
            right until the image has this size; a larger image is a sample error. Allowed: 1 to
            65,535.
        fill: Value of added pixels: one number, or one per channel. Allowed: 0 to 255. Default
            0.
        """
        options = given(input=input, padding=padding, size=size, fill=fill)
        return self._stage("stages", "pad", options)

    def letterbox(
        self: _Self,
        size: Union[int, Sequence[int]],
        *,
        input: Optional[str] = None,
        interpolation: Optional[Interpolation] = None,
        fill: Optional[Union[int, Sequence[int]]] = None,
    ) -> _Self:
        """Resizes an image to fit, with its aspect ratio kept, and pads the rest evenly (an odd
        pixel goes to the right or bottom).

        size: [height, width] of the result, or one number for a square. Allowed: 1 to 65,535.
            Required.
        input: Image that is read and replaced. Default `image`.
        interpolation: Interpolation of the resize, as for `resize`, without antialiasing.
            Allowed: `nearest`, `linear`, `area`, `cubic`. Default `linear`.
        fill: Value of added pixels: one number, or one per channel. Allowed: 0 to 255. Default
            114.
        """
        options = given(size=size, input=input, interpolation=interpolation, fill=fill)
        return self._stage("stages", "letterbox", options)

    def concat(
        self: _Self,
        inputs: Union[str, Sequence[str]],
        output: str,
        *,
        stack: Optional[bool] = None,
    ) -> _Self:
        """Joins the channels of several images of a sample, which must be of equal size: three
        frames of 3 channels give 9 channels.

        inputs: Names of at least two images, in the order of their channels in the result; a
            list of images counts as its images. Required.
        output: Name of the result. The inputs are removed; the result may take the name of one
            of them. Required.
        stack: Stacks the images instead, one after the other: [images, height, width,
            channels]. They must have equally many channels. Default false.
        """
        options = given(inputs=inputs, output=output, stack=stack)
        return self._stage("stages", "concat", options)

    def random_zoom_out(
        self: _Self,
        *,
        input: Optional[str] = None,
        fill: Optional[Union[int, Sequence[int]]] = None,
        side_range: Optional[Union[float, Sequence[float]]] = None,
        probability: Optional[float] = None,
    ) -> _Self:
        """Puts the image at a random place on a larger canvas, as torchvision's RandomZoomOut.

        input: Image that is read and replaced. Default `image`.
        fill: Value of added pixels: one number, or one per channel. Allowed: 0 to 255. Default
            0.
        side_range: [low, high] of the canvas's sides, as multiples of the image's; the first is
            at least 1. Allowed: above 0, at most 100. Default [1, 4].
        probability: Probability of zooming out. Allowed: 0 to 1. Default 0.5.
        """
        options = given(input=input, fill=fill, side_range=side_range, probability=probability)
        return self._stage("stages", "random_zoom_out", options)

    def five_crop(
        self: _Self,
        size: Union[int, Sequence[int]],
        *,
        input: Optional[str] = None,
    ) -> _Self:
        """Cuts five images out of one, as torchvision's FiveCrop: top left, top right, bottom
        left, bottom right, centre. The result is [5, height, width, channels]. An image smaller
        than the crop is a sample error.

        size: [height, width] of each crop, or one number for a square; a smaller image is a
            sample error. Allowed: 1 to 65,535. Required.
        input: Image that is read and replaced. Default `image`.
        """
        options = given(size=size, input=input)
        return self._stage("stages", "five_crop", options)


@names_options
class NumbersStages(PipelineBase):
    __slots__ = ()

    def normalize(
        self: _Self,
        *,
        input: Optional[str] = None,
        mean: Optional[Union[float, Sequence[float]]] = None,
        std: Optional[Union[float, Sequence[float]]] = None,
        divide: Optional[Union[float, Sequence[float]]] = None,
        subtract: Optional[Union[float, Sequence[float]]] = None,
        at: Optional[NormalizeAt] = None,
    ) -> _Self:
        """Turns any numeric tensor into float32, computed in float32 exactly as written: (x −
        mean) / std, or x / divide − subtract.

        input: Numbers that are read and replaced. Default `image`.
        mean: `mean` in (x − mean) / std: one number, or one per channel. Default 0 with `std`.
        std: `std` in (x − mean) / std: one number, or one per channel. Default 1 with `mean`.
        divide: `divide` in x / divide − subtract: one number, or one per channel. Default 1
            with `subtract`.
        subtract: `subtract` in x / divide − subtract: one number, or one per channel. Default 0
            with `divide`.
        at: Who computes: `worker`, or `trainer`, where the client does it, so that the batch
            travels as uint8. Default `worker`.
        """
        options = given(input=input, mean=mean, std=std, divide=divide, subtract=subtract, at=at)
        return self._stage("stages", "normalize", options)

    def cast(
        self: _Self,
        dtype: DType,
        *,
        input: Optional[str] = None,
    ) -> _Self:
        """Converts the element type. Floats become integers by truncation and are clamped to the
        integer's range; NaN becomes 0. A narrower integer type clamps; a narrower float type
        rounds to nearest, halves to even.

        dtype: The element type to convert to: `uint8`, `int8`, `uint16`, `int16`, `int32`,
            `int64`, `float16`, `bfloat16`, `float32` or `float64`. Required.
        input: Numbers that are read and replaced. Default `image`.
        """
        options = given(dtype=dtype, input=input)
        return self._stage("stages", "cast", options)

    def layout(
        self: _Self,
        to: ImageLayout,
        *,
        input: Optional[str] = None,
    ) -> _Self:
        """Order of an image's dimensions in the batch. Images are NHWC until this stage.

        to: The order of the dimensions. Allowed: `nhwc`, `nchw`. Required.
        input: Image that is read and replaced. Default `image`.
        """
        options = given(to=to, input=input)
        return self._stage("stages", "layout", options)

    def one_hot(
        self: _Self,
        classes: int,
        *,
        input: Optional[str] = None,
    ) -> _Self:
        """Turns an integer label c into a float32 vector with 1 at index c. A label outside 0 …
        classes − 1 is a sample error.

        classes: Number of classes, which is the length of the vector. Allowed: 1 to
            1,073,741,824. Required.
        input: The label, which the vector replaces. Default `label`.
        """
        options = given(classes=classes, input=input)
        return self._stage("stages", "one_hot", options)


@names_options
class FaultStages(PipelineBase):
    __slots__ = ()

    def fault(
        self: _Self,
        *,
        leak: Optional[str] = None,
        leak_mmap: Optional[str] = None,
        touch: Optional[str] = None,
        burst: Optional[str] = None,
        crash: Optional[bool] = None,
        hang: Optional[bool] = None,
        slow: Optional[float] = None,
        records: Optional[Union[int, Sequence[int]]] = None,
        every: Optional[int] = None,
        after_samples: Optional[int] = None,
    ) -> _Self:
        """Misbehaves on purpose, for trials and tests of containment, and changes no byte. A
        service refuses this stage unless it was started with --allow-fault-stages. Takes
        exactly one of the faults; a size is written as 1MiB.

        leak: For each chosen sample, allocate this much memory, touch it and never free it.
        leak_mmap: The same as `leak`, with `mmap`.
        touch: Map this much memory, touch it and unmap it: the cost of `leak_mmap` without the
            leak.
        burst: Allocate this much memory at once, touch it and free it.
        crash: Crash the worker with SIGSEGV. Default false.
        hang: Never return. Default false.
        slow: Sleep for this many seconds. Allowed: above 0, at most 86,400.
        records: Numbers of the chosen records in their source (of a mixture, the source in it),
            from 0, counted after `filter`, `split`, `skip` and `take`. Default: all.
        every: Of `records`, only those whose number is divisible by this. Default 1.
        after_samples: Only in workers that have begun at least this many samples before.
            Default 0.
        """
        options = given(
            leak=leak, leak_mmap=leak_mmap, touch=touch, burst=burst, crash=crash, hang=hang,
            slow=slow, records=records, every=every, after_samples=after_samples,
        )
        return self._stage("stages", "fault", options)


@names_options
class WarpStages(PipelineBase):
    __slots__ = ()

    def random_affine(
        self: _Self,
        *,
        input: Optional[str] = None,
        degrees: Optional[Union[float, Sequence[float]]] = None,
        translate: Optional[Union[float, Sequence[float]]] = None,
        scale: Optional[Union[float, Sequence[float]]] = None,
        shear: Optional[Union[float, Sequence[float]]] = None,
        interpolation: Optional[Interpolation] = None,
        fill: Optional[Union[int, Sequence[int]]] = None,
    ) -> _Self:
        """Rotates, shifts, scales and shears an image about its centre, with torchvision's choice
        of parameters. The size does not change.

        input: Image that is read and replaced. Default `image`.
        degrees: Rotation in degrees, clockwise (as in torchvision): one number d for [−d, d],
            or [low, high], within ±360. Default 0.
        translate: Largest shift as a share of [width, height]; shifts are whole pixels.
            Allowed: 0 to 1.
        scale: [low, high] of the scale factor, the first at least 0.001. Allowed: above 0, at
            most 1000. Default [1, 1].
        shear: Shear in degrees: one number s for x in [−s, s], [low, high] for x, or [x low, x
            high, y low, y high], within ±89.
        interpolation: Interpolation of values between pixels. Allowed: `nearest`, `linear`.
            Default `nearest`.
        fill: Value of pixels that come from outside the image: one number, or one per channel.
            Allowed: 0 to 255. Default 0.
        """
        options = given(
            input=input, degrees=degrees, translate=translate, scale=scale, shear=shear,
            interpolation=interpolation, fill=fill,
        )
        return self._stage("stages", "random_affine", options)

    def random_perspective(
        self: _Self,
        *,
        input: Optional[str] = None,
        distortion: Optional[float] = None,
        probability: Optional[float] = None,
        interpolation: Optional[Interpolation] = None,
        fill: Optional[Union[int, Sequence[int]]] = None,
    ) -> _Self:
        """Moves the corners of an image at random, as torchvision's RandomPerspective. The size
        does not change.

        input: Image that is read and replaced. Default `image`.
        distortion: Largest shift of a corner, as a share of half the side. Allowed: 0 to 1.
            Default 0.5.
        probability: Probability of moving the corners. Allowed: 0 to 1. Default 0.5.
        interpolation: Interpolation of values between pixels. Allowed: `nearest`, `linear`.
            Default `linear`.
        fill: Value of pixels that come from outside the image: one number, or one per channel.
            Allowed: 0 to 255. Default 0.
        """
        options = given(
            input=input, distortion=distortion, probability=probability,
            interpolation=interpolation, fill=fill,
        )
        return self._stage("stages", "random_perspective", options)

    def rand_augment(
        self: _Self,
        *,
        input: Optional[str] = None,
        operations: Optional[int] = None,
        magnitude: Optional[int] = None,
        interpolation: Optional[Interpolation] = None,
        fill: Optional[Union[int, Sequence[int]]] = None,
    ) -> _Self:
        """Applies `operations` random operations out of fourteen, one after the other, all at one
        magnitude, as torchvision's RandAugment.

        input: Image that is read and replaced. Default `image`.
        operations: Number of operations for each image. Allowed: 1 to 100. Default 2.
        magnitude: Magnitude of every operation. At 30 the tangent of a shear is 0.3, a shift is
            150/331 of the side, a rotation 30 degrees, a factor 1 ± 0.9; posterize keeps 4
            bits, and solarize inverts all values. Allowed: 0 to 30. Default 9.
        interpolation: Interpolation of sheared, shifted or rotated images. Allowed: `nearest`,
            `linear`. Default `nearest`.
        fill: Value of pixels that come from outside the image: one number, or one per channel.
            Allowed: 0 to 255. Default 0.
        """
        options = given(
            input=input, operations=operations, magnitude=magnitude, interpolation=interpolation,
            fill=fill,
        )
        return self._stage("stages", "rand_augment", options)

    def trivial_augment(
        self: _Self,
        *,
        input: Optional[str] = None,
        interpolation: Optional[Interpolation] = None,
        fill: Optional[Union[int, Sequence[int]]] = None,
    ) -> _Self:
        """Applies one random operation out of fourteen at a random magnitude, as torchvision's
        TrivialAugmentWide.

        input: Image that is read and replaced. Default `image`.
        interpolation: Interpolation of sheared, shifted or rotated images. Allowed: `nearest`,
            `linear`. Default `nearest`.
        fill: Value of pixels that come from outside the image: one number, or one per channel.
            Allowed: 0 to 255. Default 0.
        """
        options = given(input=input, interpolation=interpolation, fill=fill)
        return self._stage("stages", "trivial_augment", options)

    def elastic(
        self: _Self,
        *,
        input: Optional[str] = None,
        alpha: Optional[float] = None,
        sigma: Optional[float] = None,
        probability: Optional[float] = None,
        interpolation: Optional[Interpolation] = None,
        fill: Optional[Union[int, Sequence[int]]] = None,
    ) -> _Self:
        """Bends the image like a sheet of rubber, as Albumentations' ElasticTransform. The size
        does not change.

        input: Image that is read and replaced. Default `image`.
        alpha: Strength: the largest shift in x and in y before smoothing, in pixels. Allowed: 0
            to 10,000. Default 50.
        sigma: Smoothness: the standard deviation of the Gaussian that smooths the shifts, in
            pixels. Allowed: 1 to 1000. Default 5.
        probability: Probability of bending the image. Allowed: 0 to 1. Default 1.
        interpolation: Interpolation of values between pixels. Allowed: `nearest`, `linear`.
            Default `linear`.
        fill: Value of pixels that come from outside the image: one number, or one per channel.
            Allowed: 0 to 255. Default 0.
        """
        options = given(
            input=input, alpha=alpha, sigma=sigma, probability=probability,
            interpolation=interpolation, fill=fill,
        )
        return self._stage("stages", "elastic", options)


@names_options
class ColorStages(PipelineBase):
    __slots__ = ()

    def color_jitter(
        self: _Self,
        *,
        input: Optional[str] = None,
        brightness: Optional[Union[float, Sequence[float]]] = None,
        contrast: Optional[Union[float, Sequence[float]]] = None,
        saturation: Optional[Union[float, Sequence[float]]] = None,
        hue: Optional[Union[float, Sequence[float]]] = None,
        probability: Optional[float] = None,
    ) -> _Self:
        """Changes brightness, contrast, saturation and hue by random factors, in random order, as
        torchvision's ColorJitter on uint8 RGB images.

        input: Image that is read and replaced. Default `image`.
        brightness: Brightness factor: one number b for [max(0, 1 − b), 1 + b], or [low, high];
            0 is black, 1 the image itself, at most 1000. Default: unchanged.
        contrast: Contrast factor, written like `brightness`; 0 is the mean gray of the image.
            Default: unchanged.
        saturation: Saturation factor, written like `brightness`; 0 is the gray image. Default:
            unchanged.
        hue: Hue shift as a share of the colour circle: one number h for [−h, h], or [low,
            high], within [−0.5, 0.5]. Default: unchanged.
        probability: Probability of changing the image. Allowed: 0 to 1. Default 1.
        """
        options = given(
            input=input, brightness=brightness, contrast=contrast, saturation=saturation, hue=hue,
            probability=probability,
        )
        return self._stage("stages", "color_jitter", options)

    def grayscale(
        self: _Self,
        *,
        input: Optional[str] = None,
        probability: Optional[float] = None,
    ) -> _Self:
        """Replaces all three channels of an RGB image by its luma (0.2989 R + 0.587 G + 0.114 B,
        as torchvision).

        input: Image that is read and replaced. Default `image`.
        probability: Probability of turning the image gray. Allowed: 0 to 1. Default 1.
        """
        options = given(input=input, probability=probability)
        return self._stage("stages", "grayscale", options)

    def gaussian_blur(
        self: _Self,
        kernel: int,
        *,
        input: Optional[str] = None,
        sigma: Optional[Union[float, Sequence[float]]] = None,
        probability: Optional[float] = None,
    ) -> _Self:
        """Blurs with a Gaussian kernel and mirrored borders, as torchvision.

        kernel: Width of the kernel in pixels, odd. Allowed: 1 to 255. Required.
        input: Image that is read and replaced. Default `image`.
        sigma: Standard deviation in pixels: one number, or [low, high] to draw from. Allowed:
            above 0, at most 1000. Default [0.1, 2].
        probability: Probability of blurring. Allowed: 0 to 1. Default 1.
        """
        options = given(kernel=kernel, input=input, sigma=sigma, probability=probability)
        return self._stage("stages", "gaussian_blur", options)

    def random_erasing(
        self: _Self,
        *,
        input: Optional[str] = None,
        probability: Optional[float] = None,
        scale: Optional[Union[float, Sequence[float]]] = None,
        ratio: Optional[Union[float, Sequence[float]]] = None,
        fill: Optional[Union[int, Sequence[int]]] = None,
    ) -> _Self:
        """Overwrites a random rectangle, with torchvision's choice of rectangles.

        input: Image that is read and replaced. Default `image`.
        probability: Probability of erasing. Allowed: 0 to 1. Default 0.5.
        scale: [low, high] of the rectangle's area, as a share of the image's area. Allowed:
            above 0, at most 1. Default [0.02, 0.33].
        ratio: [low, high] of the rectangle's height / width. Allowed: above 0, at most 1000.
            Default [0.3, 3.3].
        fill: Value of the rectangle's pixels: one number, or one per channel. Allowed: 0 to
            255. Default 0.
        """
        options = given(input=input, probability=probability, scale=scale, ratio=ratio, fill=fill)
        return self._stage("stages", "random_erasing", options)

    def equalize(
        self: _Self,
        *,
        input: Optional[str] = None,
        probability: Optional[float] = None,
    ) -> _Self:
        """Makes the histogram of each channel flat, as Pillow's ImageOps.equalize.

        input: Image that is read and replaced. Default `image`.
        probability: Probability of equalizing. Allowed: 0 to 1. Default 1.
        """
        options = given(input=input, probability=probability)
        return self._stage("stages", "equalize", options)

    def autocontrast(
        self: _Self,
        *,
        input: Optional[str] = None,
        probability: Optional[float] = None,
    ) -> _Self:
        """Stretches each channel to the full range, as Pillow's ImageOps.autocontrast.

        input: Image that is read and replaced. Default `image`.
        probability: Probability of stretching. Allowed: 0 to 1. Default 1.
        """
        options = given(input=input, probability=probability)
        return self._stage("stages", "autocontrast", options)

    def posterize(
        self: _Self,
        bits: int,
        *,
        input: Optional[str] = None,
        probability: Optional[float] = None,
    ) -> _Self:
        """Keeps the upper bits of each value.

        bits: Number of upper bits of each value that are kept; the others become 0. Allowed: 1
            to 8. Required.
        input: Image that is read and replaced. Default `image`.
        probability: Probability of reducing the values. Allowed: 0 to 1. Default 1.
        """
        options = given(bits=bits, input=input, probability=probability)
        return self._stage("stages", "posterize", options)

    def solarize(
        self: _Self,
        *,
        input: Optional[str] = None,
        threshold: Optional[int] = None,
        probability: Optional[float] = None,
    ) -> _Self:
        """Inverts all values at or above `threshold`.

        input: Image that is read and replaced. Default `image`.
        threshold: Values x at or above this become 255 − x. Allowed: 0 to 255. Default 128.
        probability: Probability of inverting. Allowed: 0 to 1. Default 1.
        """
        options = given(input=input, threshold=threshold, probability=probability)
        return self._stage("stages", "solarize", options)

    def random_photometric_distort(
        self: _Self,
        *,
        input: Optional[str] = None,
        brightness: Optional[Union[float, Sequence[float]]] = None,
        contrast: Optional[Union[float, Sequence[float]]] = None,
        saturation: Optional[Union[float, Sequence[float]]] = None,
        hue: Optional[Union[float, Sequence[float]]] = None,
        probability: Optional[float] = None,
    ) -> _Self:
        """Changes brightness, contrast, saturation and hue, and permutes the channels, each with
        the same probability, as torchvision's RandomPhotometricDistort (the distortion of SSD)
        on uint8 RGB images.

        input: Image that is read and replaced. Default `image`.
        brightness: [low, high] of the brightness factor. Allowed: 0 to 1000. Default [0.875,
            1.125].
        contrast: [low, high] of the contrast factor. Allowed: 0 to 1000. Default [0.5, 1.5].
        saturation: [low, high] of the saturation factor. Allowed: 0 to 1000. Default [0.5,
            1.5].
        hue: [low, high] of the hue shift, as a share of the colour circle. Allowed: -0.5 to
            0.5. Default [-0.05, 0.05].
        probability: Probability of each change, drawn separately. Allowed: 0 to 1. Default 0.5.
        """
        options = given(
            input=input, brightness=brightness, contrast=contrast, saturation=saturation, hue=hue,
            probability=probability,
        )
        return self._stage("stages", "random_photometric_distort", options)


@names_options
class UserStages(PipelineBase):
    __slots__ = ()

    def python(
        self: _Self,
        function: str,
        outputs: Union[StageOutput, Sequence[StageOutput]],
        *,
        inputs: Optional[Union[str, Sequence[str]]] = None,
        arguments: Optional[Mapping[str, Union[str, float, bool]]] = None,
    ) -> _Self:
        """Calls a user's function for each sample, in workers that run the user's Python. In
        `batch_stages` the function is called once for each batch: its inputs are outputs of the
        pipeline with the rows as first dimension, and its results must have as many rows.

        function: The function as "module:name"; the module lies below a `--python-path` of the
            service. Required.
        outputs: What the function returns: one value, or a tuple in this order. Each has a
            `name` (of a feature that is created or replaced), `dtype`, `shape` and, where the
            number of rows varies, `max_count`. Required.
        inputs: Features that the function gets as NumPy arrays, in the order of its parameters.
            Default `image`.
        arguments: Constants that are passed by name: numbers, booleans and strings.
        """
        options = given(function=function, outputs=outputs, inputs=inputs, arguments=arguments)
        return self._stage("stages", "python", options)

    def native(
        self: _Self,
        library: PathLike,
        outputs: Union[StageOutput, Sequence[StageOutput]],
        *,
        inputs: Optional[Union[str, Sequence[str]]] = None,
        arguments: Optional[Mapping[str, Union[str, float, bool]]] = None,
    ) -> _Self:
        """Calls a user's function in a shared library with the C interface of bulkhead/stage.h.

        library: File name of the library, below a `--native-path` of the service. Required.
        outputs: What the function writes, in this order; each is declared as for `python`.
            Required.
        inputs: Features that the function gets, in this order. Default `image`.
        arguments: Constants that are passed as strings.
        """
        options = given(library=library, outputs=outputs, inputs=inputs, arguments=arguments)
        return self._stage("stages", "native", options)


@names_options
class AnnotationsStages(PipelineBase):
    __slots__ = ()

    def boxes(
        self: _Self,
        format: BoxFormat,
        *,
        input: Optional[str] = None,
        relative: Optional[bool] = None,
        image: Optional[str] = None,
    ) -> _Self:
        """Declares that a float32 feature with rows of four numbers holds the boxes of an image:
        from here on, every stage that moves the image's pixels moves the boxes, too.
        Coordinates count from the upper left corner of the image as it is at this stage; the
        right and bottom edges are where the next pixel begins. A number that is not finite is a
        sample error.

        format: `xyxy` (left, top, right, bottom), `xywh` (left, top, width, height), `cxcywh`
            (middle x, middle y, width, height). Required.
        input: The boxes: a float32 tensor [-1, 4] or [n, 4]. Default `boxes`.
        relative: Coordinates are shares of the image's width and height; false: pixels. Default
            false.
        image: The image, which must be decoded before. Coordinates are those of the image as it
            is at this stage. Default `image`.
        """
        options = given(format=format, input=input, relative=relative, image=image)
        return self._stage("stages", "boxes", options)

    def keypoints(
        self: _Self,
        *,
        input: Optional[str] = None,
        relative: Optional[bool] = None,
        image: Optional[str] = None,
    ) -> _Self:
        """Declares the points of an image, as `boxes` declares its boxes: a float32 feature [..,
        2] or [.., K, 2] of x and y.

        input: The points: a float32 tensor [-1, 2], or [-1, K, 2] for K points per row; the
            first dimension may be fixed. Default `keypoints`.
        relative: Coordinates are shares of the image's width and height; false: pixels. Default
            false.
        image: The image, which must be decoded before. Coordinates are those of the image as it
            is at this stage. Default `image`.
        """
        options = given(input=input, relative=relative, image=image)
        return self._stage("stages", "keypoints", options)

    def mask(
        self: _Self,
        *,
        input: Optional[str] = None,
        image: Optional[str] = None,
        fill: Optional[int] = None,
    ) -> _Self:
        """Declares the mask of an image: a decoded uint8 image of the same size. Its pixels move
        with those of the image and keep their values.

        input: The mask. Default `mask`.
        image: The image, as for `boxes`; must not be a mask itself. Default `image`.
        fill: Value of mask pixels that come from outside the image. Allowed: 0 to 255. Default
            0.
        """
        options = given(input=input, image=image, fill=fill)
        return self._stage("stages", "mask", options)


@names_options
class BoxesStages(PipelineBase):
    __slots__ = ()

    def convert_boxes(
        self: _Self,
        *,
        input: Optional[str] = None,
        to: Optional[BoxFormat] = None,
        relative: Optional[bool] = None,
    ) -> _Self:
        """Writes declared boxes in another format; the boxes do not move.

        input: Declared boxes. Default `boxes`.
        to: The new format. Allowed: `xyxy`, `xywh`, `cxcywh`. Default: as they are.
        relative: Whether coordinates become shares of the image's current size (true) or pixels
            (false). Default: as they are.
        """
        options = given(input=input, to=to, relative=relative)
        return self._stage("stages", "convert_boxes", options)

    def sanitize_boxes(
        self: _Self,
        *,
        input: Optional[str] = None,
        with_: Optional[Union[str, Sequence[str]]] = None,
        min_size: Optional[float] = None,
        min_area: Optional[float] = None,
        min_visibility: Optional[float] = None,
        clamp: Optional[bool] = None,
        epsilon: Optional[float] = None,
    ) -> _Self:
        """Drops declared boxes that are too small or lie outside the image, and the same rows of
        other features.

        input: Declared boxes. Default `boxes`.
        with_: Features with one row per box: labels, points, scores. Another number of rows is
            a sample error. Allowed: at most 64.
        min_size: Least width and least height of a box, in pixels. Allowed: above 0, at most
            1,000,000,000. Default 1.
        min_area: Least area of a box, in pixels. Allowed: 0 to 1,000,000,000. Default 0.
        min_visibility: Least share of its area that a box must have kept since it was declared.
            Each stage that cuts the box multiplies the share; resizes and flips do not change
            it. Allowed: 0 to 1. Default 0.
        clamp: Cut boxes at the image's edges first; false: drop boxes that reach beyond the
            edges. Default true.
        epsilon: Distance from the image's edges at which boxes are cut, in the boxes' own unit
            (pixels or shares). Allowed: 0 to 1,000,000,000. Default 0.
        """
        options = given(
            input=input, min_size=min_size, min_area=min_area, min_visibility=min_visibility,
            clamp=clamp, epsilon=epsilon, **{"with": with_},
        )
        return self._stage("stages", "sanitize_boxes", options)

    def random_iou_crop(
        self: _Self,
        *,
        input: Optional[str] = None,
        boxes: Optional[str] = None,
        scale: Optional[Union[float, Sequence[float]]] = None,
        ratio: Optional[Union[float, Sequence[float]]] = None,
        min_overlap: Optional[Union[float, Sequence[float]]] = None,
        trials: Optional[int] = None,
    ) -> _Self:
        """Cuts a random rectangle that overlaps a box enough, or leaves the image whole, as
        torchvision's RandomIoUCrop (the crop of SSD). Boxes whose centre is outside become
        empty: `sanitize_boxes` drops them.

        input: Image that is read and replaced. Default `image`.
        boxes: The declared boxes of the image. Default `boxes`.
        scale: [low, high] of the rectangle's width and height, as shares of the image's.
            Allowed: above 0, at most 1. Default [0.3, 1].
        ratio: [low, high] of the rectangle's width / height. Allowed: above 0, at most 1000.
            Default [0.5, 2].
        min_overlap: Least overlaps (intersection over union) to draw from; 1 and above leave
            the image whole. Allowed: 0 to 1000. Default [0, 0.1, 0.3, 0.5, 0.7, 0.9, 1].
        trials: Number of rectangles to try for each drawn overlap. Allowed: 1 to 10,000.
            Default 40.
        """
        options = given(
            input=input, boxes=boxes, scale=scale, ratio=ratio, min_overlap=min_overlap,
            trials=trials,
        )
        return self._stage("stages", "random_iou_crop", options)

    def pad_rows(
        self: _Self,
        *,
        input: Optional[str] = None,
        to: Optional[int] = None,
        value: Optional[float] = None,
        count: Optional[str] = None,
        overflow: Optional[Overflow] = None,
    ) -> _Self:
        """Gives a feature with a variable number of rows a fixed number.

        input: The feature, of any type. Default `boxes`.
        to: Number of rows of the result. Allowed: 1 to 65,535. Default: its bound.
        value: Value of the added rows; the feature's type must be able to hold it. Default 0.
        count: Name of a new int64 scalar: the number of rows that are not padding. Default:
            none is made.
        overflow: `error`: more rows than `to` are a sample error; `truncate`: the last rows are
            dropped. Default `error`.
        """
        options = given(input=input, to=to, value=value, count=count, overflow=overflow)
        return self._stage("stages", "pad_rows", options)


@names_options
class MosaicStages(PipelineBase):
    __slots__ = ()

    def mosaic(
        self: _Self,
        size: Union[int, Sequence[int]],
        *,
        input: Optional[str] = None,
        center: Optional[Union[float, Sequence[float]]] = None,
        fill: Optional[Union[int, Sequence[int]]] = None,
        probability: Optional[float] = None,
        with_: Optional[Union[str, Sequence[str]]] = None,
    ) -> _Self:
        """Puts four samples into one image around a random point: the sample itself in the upper
        left, and three others drawn from the whole epoch's order. Each image is made by the
        stages before this one, keeps its size, and touches the point with a corner; what lies
        beyond the result is cut off. Boxes, points and masks declared for the image move along;
        the result has the rows of all four samples, one sample after the other.

        size: [height, width] of the result, or one number for a square. Allowed: 1 to 65,535.
            Required.
        input: Image that is read and replaced. Default `image`.
        center: [low, high] of the point where the four images meet, as a share of the height
            and of the width. Allowed: 0 to 1. Default [0.25, 0.75].
        fill: Value of the pixels that no image covers: one number, or one per channel. Allowed:
            0 to 255. Default 114.
        probability: Probability of a mosaic; otherwise the sample is alone, in the middle of
            the result. Allowed: 0 to 1. Default 1.
        with_: Features with one row per box, such as labels: they get the rows of all four
            samples, one sample after the other. Other features stay those of the sample itself.
            Allowed: at most 64.
        """
        options = given(
            size=size, input=input, center=center, fill=fill, probability=probability, **{"with":
            with_},
        )
        return self._stage("stages", "mosaic", options)


@names_options
class CacheStages(PipelineBase):
    __slots__ = ()

    def cache(
        self: _Self,
        *,
        key: Optional[str] = None,
    ) -> _Self:
        """Keeps the result of the stages before it for each record on the service's disk, for all
        workers and later runs: from the second epoch on, those stages no longer run. Changes no
        batch, no random number and no cursor. The stages before it must not draw random
        numbers, and a sample may pass only one cache.

        key: Text that is part of the key of every stored result. Must be given after `python`
            and `native` stages: change it whenever your code changes.
        """
        options = given(key=key)
        return self._stage("stages", "cache", options)


@names_options
class BatchStages(PipelineBase):
    __slots__ = ()

    def mixup(
        self: _Self,
        *,
        input: Optional[str] = None,
        label: Optional[str] = None,
        alpha: Optional[float] = None,
        probability: Optional[float] = None,
    ) -> _Self:
        """Mixes every row of a batch with the row before it (the first with the last), as
        torchvision's MixUp: image and label become lambda × own + (1 − lambda) × other, with
        one lambda per batch drawn from Beta(alpha, alpha).

        input: Images or other numbers, uint8 or float32. Default `image`.
        label: Labels: float32, one number per class, from `one_hot`. Default `label`.
        alpha: Parameter of the Beta distribution that lambda is drawn from. Allowed: 0.001 to
            1000. Default 1.
        probability: Probability of mixing a batch. Allowed: 0 to 1. Default 1.
        """
        options = given(input=input, label=label, alpha=alpha, probability=probability)
        return self._stage("batch_stages", "mixup", options)

    def cutmix(
        self: _Self,
        *,
        input: Optional[str] = None,
        label: Optional[str] = None,
        alpha: Optional[float] = None,
        probability: Optional[float] = None,
    ) -> _Self:
        """Replaces a rectangle of every image of a batch by that of the image before it (for the
        first image, the last one), as torchvision's CutMix, and mixes the labels by the
        rectangle's area.

        input: Images, uint8 or float32, in either layout. Default `image`.
        label: Labels: float32, one number per class, from `one_hot`. Default `label`.
        alpha: Parameter of the Beta distribution that lambda is drawn from. Allowed: 0.001 to
            1000. Default 1.
        probability: Probability of changing a batch. Allowed: 0 to 1. Default 1.
        """
        options = given(input=input, label=label, alpha=alpha, probability=probability)
        return self._stage("batch_stages", "cutmix", options)

    def mixup_or_cutmix(
        self: _Self,
        *,
        input: Optional[str] = None,
        label: Optional[str] = None,
        mixup_alpha: Optional[float] = None,
        cutmix_alpha: Optional[float] = None,
        switch_probability: Optional[float] = None,
        probability: Optional[float] = None,
    ) -> _Self:
        """Applies mixup or cutmix, drawn for each batch.

        input: Images, as for `cutmix`. Default `image`.
        label: Labels, as for `cutmix`. Default `label`.
        mixup_alpha: `alpha` of mixup. Allowed: 0.001 to 1000. Default 1.
        cutmix_alpha: `alpha` of cutmix. Allowed: 0.001 to 1000. Default 1.
        switch_probability: Probability of cutmix rather than mixup. Allowed: 0 to 1. Default
            0.5.
        probability: Probability of changing a batch. Allowed: 0 to 1. Default 1.
        """
        options = given(
            input=input, label=label, mixup_alpha=mixup_alpha, cutmix_alpha=cutmix_alpha,
            switch_probability=switch_probability, probability=probability,
        )
        return self._stage("batch_stages", "mixup_or_cutmix", options)

    def batch_python(
        self: _Self,
        function: str,
        outputs: Union[StageOutput, Sequence[StageOutput]],
        *,
        inputs: Optional[Union[str, Sequence[str]]] = None,
        arguments: Optional[Mapping[str, Union[str, float, bool]]] = None,
    ) -> _Self:
        """The stage `python` for whole batches. Calls a user's function for each sample, in
        workers that run the user's Python. In `batch_stages` the function is called once for
        each batch: its inputs are outputs of the pipeline with the rows as first dimension, and
        its results must have as many rows.

        function: The function as "module:name"; the module lies below a `--python-path` of the
            service. Required.
        outputs: What the function returns: one value, or a tuple in this order. Each has a
            `name` (of a feature that is created or replaced), `dtype`, `shape` and, where the
            number of rows varies, `max_count`. Required.
        inputs: Features that the function gets as NumPy arrays, in the order of its parameters.
            Default `image`.
        arguments: Constants that are passed by name: numbers, booleans and strings.
        """
        options = given(function=function, outputs=outputs, inputs=inputs, arguments=arguments)
        return self._stage("batch_stages", "python", options)

    def pack_rows(
        self: _Self,
        *,
        inputs: Optional[Union[str, Sequence[str]]] = None,
    ) -> _Self:
        """Joins the rows of all samples of a batch, without padding. The batch has [rows of all
        samples, …] and, as `<name>_offsets`, the indexes where each sample's rows begin and
        end.

        inputs: Outputs with a variable number of rows (`shape: [-1, …]` with `max_count`), of
            any type. Default: all that are not packed yet.
        """
        options = given(inputs=inputs)
        return self._stage("batch_stages", "pack_rows", options)

    def multi_scale(
        self: _Self,
        sizes: Union[int, Sequence[int]],
        *,
        input: Optional[str] = None,
    ) -> _Self:
        """Scales all images of a batch, with their boxes, points and masks, to one size that is
        drawn for the batch; pixels are interpolated linearly. The batch has images of that size
        and, as `<name>_size`, their height and width (int64 [2]). Draws one number below the
        number of sizes.

        sizes: Lengths of the longer side in pixels, 1 to 256 of them. One is drawn for each
            batch, all with the same probability; the shorter side keeps the aspect ratio,
            rounded to the nearest pixel (halves up), at least 1. No length may exceed the
            image's longer side: a batch has no room for more. Required.
        input: An image of uint8 or float32, in either layout. Default `image`.
        """
        options = given(sizes=sizes, input=input)
        return self._stage("batch_stages", "multi_scale", options)


@names_options
class Options(PipelineBase):
    __slots__ = ()

    def batch(
        self: _Self,
        size: int,
        *,
        drop_remainder: Optional[bool] = None,
        last: Optional[LastBatch] = None,
    ) -> _Self:
        """How samples are grouped. Required.

        size: Samples per batch, on one rank. Allowed: 1 to 16,777,216. Required.
        drop_remainder: `true` is `last: drop`, `false` is `last: partial`; not together with
            `last`. Default: as `last` says.
        last: What happens to the samples that do not fill a batch on every rank: `partial` (a
            smaller last batch), `drop` (left out of this epoch), `pad` (the batch is filled
            from the start of the epoch's order; `valid_count` excludes these). Default
            `partial`.
        """
        options = given(size=size, drop_remainder=drop_remainder, last=last)
        return self._option("batch", options)

    def order_sequential(
        self: _Self,
        *,
        shuffle_files: Optional[bool] = None,
        reshuffle: Optional[bool] = None,
    ) -> _Self:
        """The source's own order, file after file.

        shuffle_files: Read the files in a random order; the order of the records within a file
            stays. Default false.
        reshuffle: With `shuffle_files`: another order of the files in every epoch. Default
            true.
        """
        options = given(shuffle_files=shuffle_files, reshuffle=reshuffle)
        return self._order("sequential", options)

    def order_global(
        self: _Self,
        *,
        reshuffle: Optional[bool] = None,
    ) -> _Self:
        """A uniform shuffle of the whole epoch, computed, not buffered: any position is found in
        O(1).

        reshuffle: Another order in every epoch. Default true.
        """
        options = given(reshuffle=reshuffle)
        return self._order("global", options)

    def order_interleave(
        self: _Self,
        cycle_length: int,
        *,
        block_length: Optional[int] = None,
        shuffle_files: Optional[bool] = None,
        reshuffle: Optional[bool] = None,
    ) -> _Self:
        """Records of several files in turn, in exactly the order of tf.data's Dataset.interleave:
        `block_length` consecutive records of each of `cycle_length` files, round after round.
        When a file's end is reached, the rest of that turn is skipped, or all of the next turn
        if it was reached at the very end of a turn; the next file of the source takes its place
        from the following turn on. TFRecordDataset's num_parallel_reads=4 is {cycle_length: 4,
        block_length: 1}. Any position is found in O(log files). A source other than `tfrecord`
        and `tar` is a single file.

        cycle_length: Files that are read at a time; a larger number than there are files means
            all of them. Required.
        block_length: Consecutive records of a file in one turn. Default 1.
        shuffle_files: Read the files in a random order; the order of the records within a file
            stays. Default false.
        reshuffle: With `shuffle_files`: another order of the files in every epoch. Default
            true.
        """
        options = given(
            cycle_length=cycle_length, block_length=block_length, shuffle_files=shuffle_files,
            reshuffle=reshuffle,
        )
        return self._order("interleave", options)

    def order_block(
        self: _Self,
        block_size: int,
        *,
        window: Optional[int] = None,
        reshuffle: Optional[bool] = None,
    ) -> _Self:
        """A shuffle that reads consecutive records together, for storage where seeks are slow: the
        data set is cut into blocks of `block_size` records (the last may be shorter), the
        blocks are shuffled over the whole epoch, and the records of every `window` consecutive
        blocks of that order are shuffled among themselves. Any position is found in O(1).

        block_size: Consecutive records of a block. Required.
        window: Number of consecutive blocks whose records are shuffled together; 1 keeps each
            block's records together. Neighbours in the order come from one block with a
            probability of about 1 / window. Default 16.
        reshuffle: Another order in every epoch. Default true.
        """
        options = given(block_size=block_size, window=window, reshuffle=reshuffle)
        return self._order("block", options)

    def filter(
        self: _Self,
        feature: str,
        *,
        in_: Optional[Union[int, Sequence[int]]] = None,
        not_in: Optional[Union[int, Sequence[int]]] = None,
        min: Optional[float] = None,
        max: Optional[float] = None,
        text_in: Optional[Union[str, Sequence[str]]] = None,
        text_not_in: Optional[Union[str, Sequence[str]]] = None,
    ) -> _Self:
        """A condition on one feature of the record, before any stage. All given tests must hold.

        feature: A scalar feature, by its name in stages: a declared feature, a label column,
            `label` of folders, `path`, `index`. Encoded images of lists and folders are not
            read while indexing. Required.
        in_: Integers to keep.
        not_in: Integers to leave out.
        min: Least number to keep; rounded to float32 for a feature of that type. NaN is within
            no bounds.
        max: Largest number to keep; rounded likewise.
        text_in: Strings to keep (byte strings and paths).
        text_not_in: Strings to leave out.
        """
        options = given(
            feature=feature, not_in=not_in, min=min, max=max, text_in=text_in,
            text_not_in=text_not_in, **{"in": in_},
        )
        return self._append("filter", options)

    def split(
        self: _Self,
        parts: Mapping[str, float],
        use: str,
        *,
        salt: Optional[int] = None,
    ) -> _Self:
        """Cuts the data into parts by a hash of each record's identity (its file relative to the
        source and its offset, an image's path, a range's value): a record stays in its part
        when data is added or the seed changes.

        parts: Parts by name, with their shares of the data, which must sum to 1: `{train: 0.9,
            validation: 0.1}`. Required.
        use: The part that this pipeline reads. Required.
        salt: Number that is hashed with each identity; another number gives another split.
            Default 0.
        """
        options = given(parts=parts, use=use, salt=salt)
        return self._option("split", options)

    def errors(
        self: _Self,
        *,
        policy: Optional[ErrorAction] = None,
        max_fraction: Optional[float] = None,
    ) -> _Self:
        """What happens when a sample cannot be produced. Default `{policy: fail}`.

        policy: `fail`: the stream ends with the sample's error. `substitute`: the next good
            sample of the order takes its place; counted and listed. `blank`, for looking at
            data and not for training: the sample stays zero, counted and listed, and images are
            decoded whole; what `bulkhead scan` uses. Default `fail`.
        max_fraction: With `substitute` and `blank`: the stream fails when more than this share
            of an epoch's positions on a rank were substituted, rounded up to whole samples.
            Allowed: 0 to 1. Default 0.01.
        """
        options = given(policy=policy, max_fraction=max_fraction)
        return self._option("errors", options)

    def seed(self: _Self, value: int) -> _Self:
        """Seed of the order and of every random stage, 0 to 2^64 − 1. Default 0."""
        return self._option("seed", value)

    def epochs(self: _Self, value: Optional[int]) -> _Self:
        """Number of epochs to deliver, or `forever`. Default `forever`. `None` leaves it out
        again.
        """
        return self._option("epochs", value)

    def outputs(self: _Self, *names: str) -> _Self:
        """Which features to deliver, in this order. Default: all features that are left after
        the stages, sorted by name.
        """
        return self._option("outputs", list(names))

    def deterministic(self: _Self, value: bool = True) -> _Self:
        """false: batches are delivered as they are completed, each exactly once, not in the
        order of their positions; the bytes of a batch are the same. Default true.
        """
        return self._option("deterministic", value)

    def skip(self: _Self, value: int) -> _Self:
        """Leaves out this many records at the start of the source, after `filter` and `split`.
        Default 0.
        """
        return self._option("skip", value)

    def take(self: _Self, value: Optional[int]) -> _Self:
        """Keeps at most this many records, after `skip`. Default: all. `None` leaves it out
        again.
        """
        return self._option("take", value)

    def exclude(self: _Self, *names: str) -> _Self:
        """Records to leave out, before `filter` and `split`, by the names that messages,
        `bulkhead scan` and quarantine give them: `train-003.tfrecord@81923`, `cats/one.jpg`;
        in a mixture with the number of the source in front, `1:cats/one.jpg`. The name of a
        TFRecord or tar file leaves out the whole file, which is then not opened.
        """
        return self._option("exclude", list(names))


class PipelineMethods(
    Sources,
    DecodeStages,
    GeometryStages,
    NumbersStages,
    FaultStages,
    WarpStages,
    ColorStages,
    UserStages,
    AnnotationsStages,
    BoxesStages,
    MosaicStages,
    CacheStages,
    BatchStages,
    Options,
):
    """Sources, stages and options, each with the words of the specification."""

    __slots__ = ()
