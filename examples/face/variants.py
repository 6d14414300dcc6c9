"""The face detector's pipeline with its three switches, each by itself: training, augmentation, normalization.

    python examples/face/variants.py [--no-training] [--no-augment] [--normalize] [--faces PATH] > examples/face/mine.yaml

writes a spec; train.yaml and validate.yaml are two of the eight. In a program give `face_pipeline(…)` to a Loader. Needs the `bulkhead`
package on the path.
"""

import argparse
from typing import Dict, List, Union

from bulkhead import Feature, Pipeline

from face_labels import EXTENTS

FEATURES = {
    "image": Feature.bytes(key="img_raw"),
    "label": "int64",
    "bbox": Feature.tensor("float32", [-1, 4], max_count=16),
}
MAPS = [f"labels_{extent}" for extent in EXTENTS]
OUTPUTS: List[Dict[str, Union[str, int, List[int]]]] = [
    {"name": "image", "dtype": "uint8", "shape": [640, 640, 3]},
    {"name": "bbox", "dtype": "float32", "shape": [-1, 4], "max_count": 16},
    *({"name": name, "dtype": "float32", "shape": [extent, extent, 6]} for name, extent in zip(MAPS, EXTENTS)),
]


def face_pipeline(
    faces: str = "faces", *, training: bool = True, is_augment: bool = True, is_normalize: bool = False
) -> Pipeline:
    """Batches of 16 from the records of the folder `faces`.

    training: Nine pictures with faces to each one without, in random order, forever; pictures without faces are scaled at random. Else
        every picture once, in the files' order, with its boxes and its label for an evaluation.
    is_augment: Pictures with faces are scaled, cut, mirrored and recoloured at random. Else they come whole.
    is_normalize: `image` is float32 from -1 to 1. Else uint8.
    """
    pipeline = mixed(faces) if training else in_order(faces)
    pipeline = pipeline.decode_image().python(
        "face:process_img", OUTPUTS, inputs=["image", "bbox"],
        arguments={"training": training, "is_augment": is_augment},
    )
    if is_normalize:
        pipeline = pipeline.normalize(divide=127.5, subtract=1)
    if training:
        return pipeline.outputs("image", *MAPS).batch(16, drop_remainder=True).seed(1)  # and forever, the default
    return pipeline.outputs("image", *MAPS, "bbox", "label").batch(16).epochs(1)


def mixed(faces: str) -> Pipeline:
    positives, negatives = (
        Pipeline.tfrecord(f"{faces}/{name}-*.tfrecord", features=FEATURES).order_global() for name in ("pos", "neg")
    )
    return Pipeline.mixture([(1 - 0.1, positives), (0.1, negatives)], stop="all_exhausted")


def in_order(faces: str) -> Pipeline:
    return Pipeline.tfrecord([f"{faces}/pos-*.tfrecord", f"{faces}/neg-*.tfrecord"], features=FEATURES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--training", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--augment", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--normalize", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--faces", default="faces", help="folder of the records, from where the spec will lie")
    chosen = parser.parse_args()
    pipeline = face_pipeline(
        chosen.faces, training=chosen.training, is_augment=chosen.augment, is_normalize=chosen.normalize
    )
    print(pipeline.to_yaml(), end="")


if __name__ == "__main__":
    main()
