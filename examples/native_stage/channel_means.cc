// A native stage: the mean of each channel of an image, times `scale`, with a little noise if
// asked for.
//
//   stages:
//   - decode_image
//   - resize: {size: 224}
//   - native:
//       library: libchannel_means.so
//       inputs: [image]
//       outputs: [{name: means, dtype: float32, shape: [3]}]
//       arguments: {scale: 0.5, noise: 0.01}
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "bulkhead/stage.h"

namespace {

struct ChannelMeans {
  double scale = 1;
  double noise = 0;
};

int Fail(char* error, uint64_t error_bytes, const char* text) {
  std::snprintf(error, error_bytes, "%s", text);
  return 1;
}

// The i-th random number in [0, 1) of a sample: a function of its key alone (SplitMix64).
double Unit(const uint64_t key[2], uint64_t i) {
  uint64_t z = key[0] + (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((z ^ (z >> 31) ^ key[1]) >> 11) * 0x1p-53;
}

int Create(const BulkheadStageConfig* config, void** state, char* error, uint64_t error_bytes) {
  if (config->input_count != 1 || config->inputs[0].dtype != BULKHEAD_UINT8 ||
      config->inputs[0].dimensions != 3) {
    return Fail(error, error_bytes, "takes one uint8 image [height, width, channels]");
  }
  const BulkheadOutput& output = config->outputs[0];
  const bool fits = config->output_count == 1 && output.dtype == BULKHEAD_FLOAT32 &&
                    output.dimensions == 1 && output.shape[0] == config->inputs[0].shape[2];
  if (!fits) return Fail(error, error_bytes, "gives one float32 for each channel of the image");
  auto* const made = new (std::nothrow) ChannelMeans;
  if (made == nullptr) return Fail(error, error_bytes, "no memory");
  for (uint64_t i = 0; i < config->argument_count; ++i) {
    const BulkheadArgument& argument = config->arguments[i];
    if (std::strcmp(argument.name, "scale") == 0) {
      made->scale = std::atof(argument.value);
    } else if (std::strcmp(argument.name, "noise") == 0) {
      made->noise = std::atof(argument.value);
    } else {
      delete made;
      return Fail(error, error_bytes, "knows the arguments scale and noise only");
    }
  }
  *state = made;
  return 0;
}

int Run(void* state, BulkheadCall* call) {
  const auto& self = *static_cast<const ChannelMeans*>(state);
  const BulkheadInput& image = call->inputs[0];
  const int64_t height = image.shape[0];
  const int64_t width = image.shape[1];
  const int64_t channels = image.shape[2];
  auto* const means = static_cast<float*>(call->outputs[0].data);
  for (int64_t c = 0; c < channels; ++c) {
    uint64_t sum = 0;
    for (int64_t y = 0; y < height; ++y) {
      const auto* row = static_cast<const uint8_t*>(image.data) + y * image.row_stride_bytes;
      for (int64_t x = 0; x < width; ++x) sum += row[x * channels + c];
    }
    if (sum == 0) return Fail(call->error, call->error_bytes, "a channel is black");
    const double noise = self.noise * Unit(call->random_key, static_cast<uint64_t>(c));
    means[c] = static_cast<float>(
        self.scale * static_cast<double>(sum) / static_cast<double>(height * width) + noise);
  }
  return 0;
}

void Destroy(void* state) { delete static_cast<ChannelMeans*>(state); }

}  // namespace

extern "C" BULKHEAD_STAGE_EXPORT const BulkheadStage* bulkhead_stage_v1(void) {
  static const BulkheadStage stage = {sizeof(BulkheadStage), Create, Run, Destroy};
  return &stage;
}
