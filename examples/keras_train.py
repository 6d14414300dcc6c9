"""A small network in Keras that learns ten classes from one service: an endless augmented stream
for training, and a stream for validation that starts at position 0 each epoch.

    python examples/keras_train.py [--color bgr|gray] [--data FOLDER] [--target unix:SOCKET]

Without a target it starts a service of its own. Ends with an error below a validation accuracy of
0.9.
"""

import argparse
import pathlib
import sys

import bulkhead.tf
import tensorflow as tf
from tensorflow import keras

from patterns import CLASSES, draw

SIZE = 224


def spec(images: pathlib.Path, part: str, color: str, *stages: object) -> dict:
    """Images as OpenCV reads them (BGR, or gray), scaled to -1 … 1."""
    return {
        "source": {"image_folder": {"path": str(images)}},
        "split": {"parts": {"train": 0.8, "validation": 0.2}, "use": part},
        "stages": [
            {"decode_image": {"color": color}},
            *stages,
            {"normalize": {"divide": 127.5, "subtract": 1}},
            {"one_hot": {"classes": CLASSES}},
        ],
        "order": {"global": {}} if part == "train" else "sequential",
        "batch": {"size": 16, "drop_remainder": part == "train"},
        "outputs": ["image", "label"],
    }


def network(channels: int) -> keras.Model:
    image = keras.Input((SIZE, SIZE, channels), name="input")
    x = keras.layers.AveragePooling2D(16)(image)
    x = keras.layers.Conv2D(16, 3, activation="relu")(x)
    x = keras.layers.Flatten()(x)
    x = keras.layers.Dense(CLASSES, activation="softmax", name="output")(x)
    model = keras.Model({"input": image}, {"output": x})
    model.compile(
        keras.optimizers.Adam(0.003),
        loss={"output": "categorical_crossentropy"},
        metrics={"output": ["accuracy"]},
    )
    return model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--color", choices=["bgr", "gray"], default="bgr")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("patterns"))
    parser.add_argument("--target")
    arguments = parser.parse_args()
    images = draw(arguments.data / "images", count=600, size=256)
    keras.utils.set_random_seed(1)
    tf.config.experimental.enable_op_determinism()

    crop = {"random_resized_crop": {"size": SIZE, "scale": [0.7, 1.0]}}
    names = ({"input": "image"}, {"output": "label"})
    augmented = spec(images, "train", arguments.color, crop, "random_horizontal_flip")
    plain = spec(images, "validation", arguments.color, {"resize": {"size": SIZE}})
    train = bulkhead.tf.Loader(augmented, arguments.target, structure=names)
    valid = bulkhead.tf.Loader(plain, arguments.target, structure=names)

    best = str(arguments.data / "best.weights.h5")
    log = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda step, logs: print(f"step {step} loss {logs['loss']!r}"),
        on_epoch_end=lambda epoch, logs: print(f"epoch {epoch} val_loss {logs['val_loss']!r}"),
    )
    model = network(1 if arguments.color == "gray" else 3)
    with train, valid:
        model.fit(
            train.stream(),
            steps_per_epoch=len(train),
            validation_data=valid.validation(),
            validation_steps=len(valid),
            epochs=6,
            callbacks=[
                train.callback(str(arguments.data / "cursor.json")),
                keras.callbacks.ModelCheckpoint(
                    best, monitor="val_loss", save_best_only=True, save_weights_only=True
                ),
                keras.callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True),
                log,
            ],
            verbose=0,
        )
        model.load_weights(best)
        result = model.evaluate(valid.validation(), verbose=0, return_dict=True)
        print(f"val_loss {result['loss']!r} accuracy {result['accuracy']!r}")
        print("reconnects", train.loader.reconnects)
    if result["accuracy"] < 0.9:
        sys.exit("the network did not learn")


if __name__ == "__main__":
    main()
