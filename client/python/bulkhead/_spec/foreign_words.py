"""Words of other libraries, and what to write instead. Written by update_option_limits.py."""

from __future__ import annotations

from typing import Dict, Tuple

# By message, and by the word without case and signs: a sentence, what stands for its $0 if nothing was written, and the
# stage that takes the options of a map as they are.
WORDS: Dict[str, Dict[str, Tuple[str, str, str]]] = {
    "bulkhead.v1.Batch": {
        "batchsize": ("write `size: $0`", "64", ""),
        "droplast": ("write `drop_remainder: $0`", "true", ""),
        "numworkers": (
            "no part of a spec: write it in the program, Loader(..., workers=$0), or "
            "start bulkheadd --workers $0",
            "4", "",
        ),
        "shuffle": ("`order: global`, beside `batch`, shuffles the whole epoch", "", ""),
    },
    "bulkhead.v1.ErrorPolicy": {
        "continue": (
            "write `errors: {policy: substitute}`: the next good sample takes the place "
            "of a bad one, so that batches keep their size",
            "", "",
        ),
        "drop": (
            "write `errors: {policy: substitute}`: the next good sample takes the place "
            "of a bad one, so that batches keep their size",
            "", "",
        ),
        "ignore": (
            "write `errors: {policy: substitute}`: the next good sample takes the place "
            "of a bad one, so that batches keep their size",
            "", "",
        ),
        "raise": ("write `errors: {policy: fail}`", "", ""),
        "replace": (
            "write `errors: {policy: substitute}`: the next good sample takes the place "
            "of a bad one, so that batches keep their size",
            "", "",
        ),
        "skip": (
            "write `errors: {policy: substitute}`: the next good sample takes the place "
            "of a bad one, so that batches keep their size",
            "", "",
        ),
        "stop": ("write `errors: {policy: fail}`", "", ""),
        "strict": ("write `errors: {policy: fail}`", "", ""),
        "warn": (
            "write `errors: {policy: substitute}`: the next good sample takes the place "
            "of a bad one, so that batches keep their size",
            "", "",
        ),
    },
    "bulkhead.v1.Order": {
        "false": ("write `order: sequential`", "", ""),
        "none": ("write `order: sequential`", "", ""),
        "random": (
            "write `order: global`: the whole epoch is shuffled, without a buffer",
            "", "",
        ),
        "shuffle": (
            "write `order: global`: the whole epoch is shuffled, without a buffer",
            "", "",
        ),
        "shuffleall": (
            "write `order: global`: the whole epoch is shuffled, without a buffer",
            "", "",
        ),
        "shuffled": (
            "write `order: global`: the whole epoch is shuffled, without a buffer",
            "", "",
        ),
        "true": ("write `order: global`: the whole epoch is shuffled, without a buffer", "", ""),
    },
    "bulkhead.v1.PipelineSpec": {
        "augmentation": (
            "write `stages:` and each step on a line of its own, after a dash",
            "", "",
        ),
        "augmentations": (
            "write `stages:` and each step on a line of its own, after a dash",
            "", "",
        ),
        "batchsize": ("write `batch: {size: $0}`", "64", ""),
        "buffersize": (
            "write `order: global`: the whole epoch is shuffled, without a buffer",
            "", "",
        ),
        "cache": ("write `cache` among `stages`, behind what it is to keep", "", ""),
        "collatefn": (
            "leave it out: batches are made by the service; see `batch_stages`",
            "", "",
        ),
        "datadir": ("write `source: {image_folder: {path: $0}}`", "photos", ""),
        "dataset": ("write `source:`, such as `source: {image_folder: {path: photos}}`", "", ""),
        "droplast": ("write `batch: {size: 64, drop_remainder: $0}`", "true", ""),
        "dropremainder": ("write `batch: {size: 64, drop_remainder: $0}`", "true", ""),
        "filenames": ("write `source: {tfrecord: {files: $0}}`", "data/*.tfrecord", ""),
        "files": ("write `source: {tfrecord: {files: $0}}`", "data/*.tfrecord", ""),
        "imagesize": ("write `resize: {size: $0}` among `stages`", "224", ""),
        "manualseed": ("write `seed: $0`", "1", ""),
        "numepochs": ("write `epochs: $0`, or `epochs: forever`", "10", ""),
        "numparallelcalls": (
            "no part of a spec: write it in the program, Loader(..., workers=$0), or "
            "start bulkheadd --workers $0",
            "4", "",
        ),
        "numshards": (
            "no part of a spec: write it in the program, Loader(..., rank=R, "
            "world_size=N)",
            "", "",
        ),
        "numworkers": (
            "no part of a spec: write it in the program, Loader(..., workers=$0), or "
            "start bulkheadd --workers $0",
            "4", "",
        ),
        "persistentworkers": ("leave it out: the workers are the service's, and stay", "", ""),
        "pinmemory": ("no part of a spec: the program moves batches (docs/pytorch.md)", "", ""),
        "prefetch": ("leave it out: the service works ahead by itself", "", ""),
        "prefetchfactor": ("leave it out: the service works ahead by itself", "", ""),
        "preprocessing": (
            "write `stages:` and each step on a line of its own, after a dash",
            "", "",
        ),
        "randomseed": ("write `seed: $0`", "1", ""),
        "rank": (
            "no part of a spec: write it in the program, Loader(..., rank=R, "
            "world_size=N)",
            "", "",
        ),
        "repeat": ("write `epochs: $0`, or `epochs: forever`", "10", ""),
        "reshuffleeachiteration": ("write `order: {global: {reshuffle: $0}}`", "true", ""),
        "root": ("write `source: {image_folder: {path: $0}}`", "photos", ""),
        "shard": (
            "no part of a spec: write it in the program, Loader(..., rank=R, "
            "world_size=N)",
            "", "",
        ),
        "shuffle": (
            "write `order: global`: the whole epoch is shuffled, without a buffer",
            "", "",
        ),
        "shufflebuffer": (
            "write `order: global`: the whole epoch is shuffled, without a buffer",
            "", "",
        ),
        "shufflebuffersize": (
            "write `order: global`: the whole epoch is shuffled, without a buffer",
            "", "",
        ),
        "targetsize": ("write `resize: {size: $0}` among `stages`", "224", ""),
        "transform": ("write `stages:` and each step on a line of its own, after a dash", "", ""),
        "transforms": (
            "write `stages:` and each step on a line of its own, after a dash",
            "", "",
        ),
        "validationsplit": (
            "write `split: {parts: {train: 0.8, validation: 0.2}, use: train}`, and in "
            "the spec of the validation `use: validation`",
            "", "",
        ),
        "workers": (
            "no part of a spec: write it in the program, Loader(..., workers=$0), or "
            "start bulkheadd --workers $0",
            "4", "",
        ),
        "worldsize": (
            "no part of a spec: write it in the program, Loader(..., rank=R, "
            "world_size=N)",
            "", "",
        ),
    },
    "bulkhead.v1.Source": {
        "csv": ("write `image_list: {path: $0}`", "train.csv", ""),
        "csvfile": ("write `image_list: {path: $0}`", "train.csv", ""),
        "datadir": ("write `image_folder: {path: $0}`", "photos", ""),
        "dir": ("write `image_folder: {path: $0}`", "photos", ""),
        "directory": ("write `image_folder: {path: $0}`", "photos", ""),
        "filelist": ("write `image_list: {path: $0}`", "train.txt", ""),
        "folder": ("write `image_folder: {path: $0}`", "photos", ""),
        "imagedatasetfromdirectory": ("write `image_folder: {path: $0}`", "photos", ""),
        "imagedir": ("write `image_folder: {path: $0}`", "photos", ""),
        "imagedirectory": ("write `image_folder: {path: $0}`", "photos", ""),
        "imagefolder": ("write `image_folder: {path: $0}`", "photos", ""),
        "images": ("write `image_folder: {path: $0}`", "photos", ""),
        "list": ("write `image_list: {path: $0}`", "train.txt", ""),
        "path": ("write `image_folder: {path: $0}`", "photos", ""),
        "root": ("write `image_folder: {path: $0}`", "photos", ""),
        "shards": ("write `tar: {files: $0}`", "data/*.tar", ""),
        "tars": ("write `tar: {files: $0}`", "data/*.tar", ""),
        "tfrecorddataset": ("write `tfrecord: {files: $0}`", "data/*.tfrecord", ""),
        "tfrecords": ("write `tfrecord: {files: $0}`", "data/*.tfrecord", ""),
        "tsv": ("write `image_list: {path: $0}`", "train.tsv", ""),
        "txt": ("write `image_list: {path: $0}`", "train.txt", ""),
        "wds": ("write `tar: {files: $0}`", "data/*.tar", ""),
        "webdataset": ("write `tar: {files: $0}`", "data/*.tar", ""),
    },
    "bulkhead.v1.Split": {
        "test": (
            "parts stand below `parts`: write `split: {parts: {train: 0.8, validation: "
            "0.2}, use: train}`",
            "", "",
        ),
        "train": (
            "parts stand below `parts`: write `split: {parts: {train: 0.8, validation: "
            "0.2}, use: train}`",
            "", "",
        ),
        "training": (
            "parts stand below `parts`: write `split: {parts: {train: 0.8, validation: "
            "0.2}, use: train}`",
            "", "",
        ),
        "val": (
            "parts stand below `parts`: write `split: {parts: {train: 0.8, validation: "
            "0.2}, use: train}`",
            "", "",
        ),
        "valid": (
            "parts stand below `parts`: write `split: {parts: {train: 0.8, validation: "
            "0.2}, use: train}`",
            "", "",
        ),
        "validation": (
            "parts stand below `parts`: write `split: {parts: {train: 0.8, validation: "
            "0.2}, use: train}`",
            "", "",
        ),
    },
    "bulkhead.v1.Stage": {
        "adjustbrightness": ("write `color_jitter: {brightness: $0}`", "0.2", ""),
        "adjustcontrast": ("write `color_jitter: {contrast: $0}`", "0.2", ""),
        "adjusthue": ("write `color_jitter: {hue: $0}`", "0.1", ""),
        "adjustsaturation": ("write `color_jitter: {saturation: $0}`", "0.2", ""),
        "augmix": ("there is none here: `rand_augment` and `trivial_augment` are alike", "", ""),
        "autoaugment": (
            "there is none here: `rand_augment` and `trivial_augment` are alike",
            "", "",
        ),
        "batch": ("belongs at the top of the spec: $0", "`batch: {size: 64}`", ""),
        "centercrop": ("write `center_crop: {size: $0}`", "224", "center_crop"),
        "centralcrop": ("write `center_crop: {size: $0}`", "224", "center_crop"),
        "colorjitter": (
            "write `color_jitter: {brightness: 0.4, contrast: 0.4, saturation: 0.4, hue: "
            "0.1}`",
            "", "color_jitter",
        ),
        "compose": (
            "leave it out: stages are a list, each on a line of its own after a dash",
            "", "",
        ),
        "convertimagedtype": ("write `normalize: {divide: 255}`", "", ""),
        "convertimagetofloat": ("write `normalize: {divide: 255}`", "", ""),
        "decodejpeg": ("write `decode_image`", "", ""),
        "decodepng": ("write `decode_image`", "", ""),
        "filter": (
            "belongs at the top of the spec: $0",
            "`filter: [{feature: label, in: [3]}]`", "",
        ),
        "flipleftright": (
            "write `random_horizontal_flip`, or `{probability: $0}` below it",
            "0.5", "random_horizontal_flip",
        ),
        "flipupdown": (
            "write `random_vertical_flip`, or `{probability: $0}` below it",
            "0.5", "random_vertical_flip",
        ),
        "gaussianblur": ("write `gaussian_blur: {kernel: $0}`", "5", "gaussian_blur"),
        "horizontalflip": (
            "write `random_horizontal_flip`, or `{probability: $0}` below it",
            "0.5", "random_horizontal_flip",
        ),
        "imread": ("write `decode_image`", "", ""),
        "lambda": (
            "write `python: {function: \"module:name\", inputs: [image], outputs: [{name: "
            "image, dtype: uint8, shape: [224, 224, 3]}]}`",
            "", "",
        ),
        "longestmaxsize": ("write `resize: {longer_side: $0}`", "640", ""),
        "map": (
            "write `python: {function: \"module:name\", inputs: [image], outputs: [{name: "
            "image, dtype: uint8, shape: [224, 224, 3]}]}`",
            "", "",
        ),
        "normalize": (
            "write `normalize: {mean: [123.675, 116.28, 103.53], std: [58.395, 57.12, "
            "57.375]}`: torchvision's constants times 255, because values are 0 to 255 "
            "here",
            "", "normalize",
        ),
        "numpyfunction": (
            "write `python: {function: \"module:name\", inputs: [image], outputs: [{name: "
            "image, dtype: uint8, shape: [224, 224, 3]}]}`",
            "", "",
        ),
        "perimagestandardization": (
            "write `normalize` with constants, or a `python` stage with a function of "
            "your own",
            "", "",
        ),
        "permute": ("write `layout: {to: nchw}`", "", ""),
        "piltotensor": ("write `layout: {to: nchw}`", "", ""),
        "prefetch": ("leave it out: the service works ahead by itself", "", ""),
        "pyfunction": (
            "write `python: {function: \"module:name\", inputs: [image], outputs: [{name: "
            "image, dtype: uint8, shape: [224, 224, 3]}]}`",
            "", "",
        ),
        "randomapply": ("give the stage itself `probability: $0`", "0.5", ""),
        "randombrightness": ("write `color_jitter: {brightness: $0}`", "0.2", ""),
        "randomchoice": ("give the stage itself `probability: $0`", "0.5", ""),
        "randomcontrast": ("write `color_jitter: {contrast: $0}`", "0.2", ""),
        "randomcrop": ("write `random_crop: {size: $0}`", "224", "random_crop"),
        "randomflip": (
            "write `random_horizontal_flip`, or `{probability: $0}` below it",
            "0.5", "random_horizontal_flip",
        ),
        "randomflipleftright": (
            "write `random_horizontal_flip`, or `{probability: $0}` below it",
            "0.5", "random_horizontal_flip",
        ),
        "randomflipupdown": (
            "write `random_vertical_flip`, or `{probability: $0}` below it",
            "0.5", "random_vertical_flip",
        ),
        "randomgrayscale": ("write `grayscale: {probability: $0}`", "0.1", "grayscale"),
        "randomhorizontalflip": (
            "write `random_horizontal_flip`, or `{probability: $0}` below it",
            "0.5", "random_horizontal_flip",
        ),
        "randomhue": ("write `color_jitter: {hue: $0}`", "0.1", ""),
        "randomresizedcrop": (
            "write `random_resized_crop: {size: $0}`",
            "224", "random_resized_crop",
        ),
        "randomrotate": ("write `random_affine: {degrees: $0}`", "15", "random_affine"),
        "randomrotation": ("write `random_affine: {degrees: $0}`", "15", "random_affine"),
        "randomsaturation": ("write `color_jitter: {saturation: $0}`", "0.2", ""),
        "randomverticalflip": (
            "write `random_vertical_flip`, or `{probability: $0}` below it",
            "0.5", "random_vertical_flip",
        ),
        "repeat": ("belongs at the top of the spec: $0", "`epochs: forever`", ""),
        "rescale": ("write `normalize: {divide: 255}`", "", ""),
        "rescaling": ("write `normalize: {divide: 255}`", "", ""),
        "resize": (
            "torchvision's gives the shorter side that length: write `resize: "
            "{shorter_side: $0}`; for exactly that height and width write `resize: {size:"
            " $0}`",
            "256", "",
        ),
        "resizewithpad": ("write `letterbox: {size: $0}`", "224", "letterbox"),
        "rgbtograyscale": (
            "write `grayscale`, or decode with `decode_image: {color: gray}`",
            "", "",
        ),
        "rotate": ("write `random_affine: {degrees: $0}`", "15", "random_affine"),
        "sequential": (
            "leave it out: stages are a list, each on a line of its own after a dash",
            "", "",
        ),
        "shuffle": ("belongs at the top of the spec: $0", "`order: global`", ""),
        "skip": ("belongs at the top of the spec: $0", "`skip: 1000`", ""),
        "smallestmaxsize": ("write `resize: {shorter_side: $0}`", "256", ""),
        "split": (
            "belongs at the top of the spec: $0",
            "`split: {parts: {train: 0.8, validation: 0.2}, use: train}`", "",
        ),
        "take": ("belongs at the top of the spec: $0", "`take: 1000`", ""),
        "todtype": ("write `normalize: {divide: 255}`", "", ""),
        "toimage": ("leave it out: decoded images are arrays of uint8", "", ""),
        "totensor": (
            "images are arrays already: for values of 0 to 1 write `normalize: {divide: "
            "255}`, for channels first `layout: {to: nchw}`",
            "", "",
        ),
        "totensorv2": ("write `layout: {to: nchw}`", "", ""),
        "transpose": ("write `layout: {to: nchw}`", "", ""),
        "trivialaugmentwide": ("write `trivial_augment`", "", ""),
        "verticalflip": (
            "write `random_vertical_flip`, or `{probability: $0}` below it",
            "0.5", "random_vertical_flip",
        ),
    },
}
# The names of options here by those there.
OPTION_NAMES: Dict[str, str] = {
    "dir": "path",
    "directory": "path",
    "folder": "path",
    "kernel_size": "kernel",
    "method": "interpolation",
    "num_ops": "operations",
    "p": "probability",
    "prob": "probability",
    "root": "path",
}
