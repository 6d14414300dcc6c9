#include "tools/synth/specs.h"

namespace bulkhead::tools {

const char kFolderSpec[] = R"(# Class = sub-folder.
source:
  image_folder: {path: folder}
stages:
  - decode_image: {}
  - random_resized_crop: {size: 224}
  - random_horizontal_flip: {}
outputs: [image, label]
batch: {size: 64, drop_remainder: true}
order: {global: {}}
seed: 1
epochs: 1
)";

const char kListSpec[] = R"(# A line of list.txt: path, tab, label.
source:
  image_list: {path: list.txt}
stages:
  - decode_image: {}
  - random_resized_crop: {size: 224}
  - random_horizontal_flip: {}
outputs: [image, label]
batch: {size: 64, drop_remainder: true}
order: {global: {}}
seed: 1
epochs: 1
)";

const char kTfRecordSpec[] =
    R"(# tf.Example records; the boxes were written by tf.io.serialize_tensor.
source:
  tfrecord: {files: "records-*.tfrecord"}
features:
  image: {bytes: {}}
  label: {int64: {}}
  boxes: {tensor: {dtype: float32, shape: [-1, 4], max_count: 16}}
stages:
  - decode_image: {}
  - random_resized_crop: {size: 224}
  - random_horizontal_flip: {}
outputs: [image, label]   # boxes are not declared here, so nothing moves them: see docs/detection.md
batch: {size: 64, drop_remainder: true}
order: {global: {}}
seed: 1
epochs: 1
)";

const char kFaceSpec[] = R"(# Faces (pos-*) and pictures without one (neg-*), whose boxes are empty.
source:
  tfrecord: {files: ["pos-*.tfrecord", "neg-*.tfrecord"]}
features:
  image: {key: img_raw, bytes: {}}
  label: {int64: {}}
  bbox: {tensor: {dtype: float32, shape: [-1, 4], max_count: 16}}
stages:
  - decode_image: {}
  - resize: {size: [224, 224]}
  - normalize: {divide: 127.5, subtract: 1}
batch: {size: 32, drop_remainder: true}
order: {global: {}}
seed: 1
epochs: 1
)";

const char kRangeSpec[] = R"(# Numbers, to see an order with the eye.
source:
  tfrecord: {files: "part-*.tfrecord"}
features:
  var: {int64: {}}
batch: {size: 100, drop_remainder: true}
order: {sequential: {}}
epochs: 1
)";

}  // namespace bulkhead::tools
