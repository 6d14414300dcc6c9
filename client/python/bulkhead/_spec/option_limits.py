"""What is declared of options, by field. Written by update_option_limits.py."""

from __future__ import annotations

from typing import Dict, Tuple

# Why a number cannot be 0, which a message would take for one that is not set.
ZEROS: Dict[str, str] = {
    "bulkhead.v1.Batch.size": "is 0; it must lie between 1 and 16777216",
    "bulkhead.v1.BlockOrder.block_size": "is 0; it must be at least 1",
    "bulkhead.v1.BlockOrder.window": "is 0; it must be at least 1",
    "bulkhead.v1.BoxesFeature.max_count": "is 0; it must be at least 1",
    "bulkhead.v1.BytesFeature.max_bytes": "is 0; it must be at least 1",
    "bulkhead.v1.BytesFeature.max_count": "is 0; it must be at least 1",
    "bulkhead.v1.DecodeImage.channels": "is 0; it can be 1 (gray), 3 (rgb) or 4 (rgba)",
    "bulkhead.v1.DecodeImage.max_pixels": "is 0; it must be at least 1",
    "bulkhead.v1.DecodeImage.scale": "is 0; it can be 1, 2, 4 or 8",
    "bulkhead.v1.Fault.every": "is 0; it must be at least 1",
    "bulkhead.v1.FloatFeature.max_count": "is 0; it must be at least 1",
    "bulkhead.v1.Frames.stride": "is 0; it must be at least 1",
    "bulkhead.v1.Frames.window": "is 0; it must lie between 2 and 64",
    "bulkhead.v1.GaussianBlur.kernel": "is 0; it must be odd and at most 255",
    "bulkhead.v1.ImageFolderSource.max_path_bytes": "is 0; it must lie between 1 and 65536",
    "bulkhead.v1.ImageListSource.max_path_bytes": "is 0; it must lie between 1 and 65536",
    "bulkhead.v1.Int64Feature.max_count": "is 0; it must be at least 1",
    "bulkhead.v1.InterleaveOrder.block_length": "is 0; it must be at least 1",
    "bulkhead.v1.InterleaveOrder.cycle_length": "is 0; it must be at least 1",
    "bulkhead.v1.MixedSource.weight": "is 0; it must lie between 1e-09 and 1e+09",
    "bulkhead.v1.MixtureSource.samples_per_epoch": (
        "is 0; it must lie between 1 and 281474976710656"
    ),
    "bulkhead.v1.OneHot.classes": "is 0; it must lie between 1 and 1073741824",
    "bulkhead.v1.PadRows.to": "is 0; it must lie between 1 and 65535",
    "bulkhead.v1.Posterize.bits": "is 0; it must lie between 1 and 8",
    "bulkhead.v1.RandAugment.operations": "is 0; it must lie between 1 and 100",
    "bulkhead.v1.RandomIouCrop.trials": "is 0; it must lie between 1 and 10000",
    "bulkhead.v1.RangeSource.size": "is 0; it must be at least 1",
    "bulkhead.v1.Resize.factor": "is 0; it must be above 0 and at most 1000",
    "bulkhead.v1.Resize.longer_side": "is 0; it must lie between 1 and 65535",
    "bulkhead.v1.Resize.max_size": "is 0; it must lie between 1 and 65535",
    "bulkhead.v1.Resize.shorter_side": "is 0; it must lie between 1 and 65535",
    "bulkhead.v1.StageOutput.max_count": "is 0; it must be at least 1",
    "bulkhead.v1.TensorFeature.max_count": "is 0; it must be at least 1",
    "bulkhead.v1.TruncatedImages.accept": "is 0; it must be above 0 and at most 1",
}
# The values that an option takes, where its type has more.
VALUES: Dict[str, Tuple[str, ...]] = {
    "bulkhead.v1.Cast.dtype": (
        "uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "bfloat16",
        "float32", "float64",
    ),
    "bulkhead.v1.Elastic.interpolation": (
        "nearest", "linear",
    ),
    "bulkhead.v1.ImageListSource.label_dtype": (
        "int64", "float32",
    ),
    "bulkhead.v1.Layout.to": (
        "nhwc", "nchw",
    ),
    "bulkhead.v1.RandAugment.interpolation": (
        "nearest", "linear",
    ),
    "bulkhead.v1.RandomAffine.interpolation": (
        "nearest", "linear",
    ),
    "bulkhead.v1.RandomPerspective.interpolation": (
        "nearest", "linear",
    ),
    "bulkhead.v1.TensorFeature.dtype": (
        "uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "bfloat16",
        "float32", "float64", "bool",
    ),
    "bulkhead.v1.TrivialAugment.interpolation": (
        "nearest", "linear",
    ),
}
