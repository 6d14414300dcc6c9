"""A small network in JAX that learns ten classes from a service.

    python examples/jax_train.py [--data FOLDER] [--target unix:SOCKET]

Without a target it starts a service of its own. Ends with an error below an accuracy of 0.9 on the
validation part.
"""

import argparse
import pathlib
import sys

import bulkhead.jax
import jax
import jax.numpy as jnp

from patterns import CLASSES, draw

EPOCHS = 4
SIDE = 8  # pixels that the network sees, after averaging


def spec(images: pathlib.Path, part: str, *augment: object) -> dict:
    return {
        "source": {"image_folder": {"path": str(images)}},
        "split": {"parts": {"train": 0.8, "validation": 0.2}, "use": part},
        "stages": [
            "decode_image",
            *augment,
            {"resize": {"size": 64, "interpolation": "area"}},
            {"normalize": {"divide": 127.5, "subtract": 1}},
            {"one_hot": {"classes": CLASSES}},
        ],
        "order": {"global": {}} if augment else "sequential",
        "batch": {"size": 32, "drop_remainder": bool(augment)},
        "outputs": ["image", "label"],
    }


def predict(parameters, image):
    step = image.shape[1] // SIDE
    small = (
        image.reshape(len(image), SIDE, step, SIDE, step, 3)
        .mean(axis=(2, 4))
        .reshape(len(image), -1)
    )
    hidden = jax.nn.relu(small @ parameters["w1"] + parameters["b1"])
    return hidden @ parameters["w2"] + parameters["b2"]


def loss_of(parameters, image, label):
    return -(jax.nn.log_softmax(predict(parameters, image)) * label).sum(axis=1).mean()


@jax.jit
def train_step(parameters, image, label):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, image, label)
    return jax.tree.map(lambda value, gradient: value - 0.2 * gradient, parameters, gradients), loss


@jax.jit
def count_right(parameters, image, label):
    return (predict(parameters, image).argmax(axis=1) == label.argmax(axis=1)).sum()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("patterns"))
    parser.add_argument("--target")
    arguments = parser.parse_args()
    images = draw(arguments.data / "images", count=1000, size=96)
    augment = [{"random_resized_crop": {"size": 80, "scale": [0.7, 1.0]}}, "random_horizontal_flip"]

    first, second = jax.random.split(jax.random.key(1))
    parameters = {
        "w1": jax.random.normal(first, (SIDE * SIDE * 3, 64)) * 0.05,
        "b1": jnp.zeros(64),
        "w2": jax.random.normal(second, (64, CLASSES)) * 0.1,
        "b2": jnp.zeros(CLASSES),
    }
    names = ("image", "label")
    train = bulkhead.jax.Loader(spec(images, "train", *augment), arguments.target, structure=names)
    check = bulkhead.jax.Loader(spec(images, "validation"), arguments.target, structure=names)
    with train, check:
        for epoch in range(EPOCHS):
            for image, label in train:
                parameters, loss = train_step(parameters, image, label)
                print(f"epoch {epoch} loss {float(loss)!r}")
        right = total = 0
        for image, label in check:
            right += int(count_right(parameters, image, label))
            total += len(label)
        print(f"accuracy {right / total!r}")
        print("reconnects", train.loader.reconnects)
    if right < 0.9 * total:
        sys.exit("the network did not learn")


if __name__ == "__main__":
    main()
