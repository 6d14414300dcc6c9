#include "tools/synth/photo.h"

#include <algorithm>
#include <cmath>

#include "server/base/random.h"

namespace bulkhead::tools {
namespace {

using Color = std::array<float, 3>;

// Small and fast, for grain; its quality does not matter.
class Grain {
 public:
  explicit Grain(uint32_t seed) : state_(seed | 1) {}
  // Roughly bell-shaped in −1 … 1.
  float Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    const int sum = static_cast<int>(state_ & 0xff) + static_cast<int>((state_ >> 8) & 0xff) +
                    static_cast<int>((state_ >> 16) & 0xff);
    return static_cast<float>(sum - 382) * (1.0f / 382.0f);
  }

 private:
  uint32_t state_;
};

// Random values on a lattice, interpolated between its points.
class Clouds {
 public:
  Clouds(SampleRandom& random, int width, int height, int step, float strength)
      : step_(step), columns_(width / step + 2) {
    const int rows = height / step + 2;
    values_.reserve(static_cast<size_t>(columns_) * rows);
    for (int i = 0; i < columns_ * rows; ++i) {
      values_.push_back(static_cast<float>(random.NextUniform(-strength, strength)));
    }
  }

  // Adds row `y` to `line`.
  void AddRow(int y, std::vector<float>& line) const {
    const float fy = static_cast<float>(y % step_) / static_cast<float>(step_);
    const float* above = &values_[static_cast<size_t>(y / step_) * columns_];
    const float* below = above + columns_;
    for (int x = 0; x < static_cast<int>(line.size()); ++x) {
      const int column = x / step_;
      const float fx = static_cast<float>(x % step_) / static_cast<float>(step_);
      const float top = above[column] + (above[column + 1] - above[column]) * fx;
      const float bottom = below[column] + (below[column + 1] - below[column]) * fx;
      line[x] += top + (bottom - top) * fy;
    }
  }

 private:
  int step_;
  int columns_;
  std::vector<float> values_;
};

struct Ellipse {
  float x, y, radius_x, radius_y;
  Color color;
};

Color RandomColor(SampleRandom& random, double low, double high) {
  return {static_cast<float>(random.NextUniform(low, high)),
          static_cast<float>(random.NextUniform(low, high)),
          static_cast<float>(random.NextUniform(low, high))};
}

Color ClassColor(int label) {
  SampleRandom random(0, 0, static_cast<uint64_t>(label), StableHash("synth/class"));
  return RandomColor(random, 20, 235);
}

std::vector<Ellipse> PlaceObjects(const PhotoRequest& request, SampleRandom& random) {
  const int spread = std::max(0, request.max_boxes - request.min_boxes);
  const int count = request.min_boxes + static_cast<int>(random.NextBelow(spread + 1));
  const Color base = ClassColor(request.label);
  std::vector<Ellipse> objects;
  for (int i = 0; i < count; ++i) {
    Ellipse object;
    object.radius_x = static_cast<float>(request.width * random.NextUniform(0.06, 0.22));
    object.radius_y = static_cast<float>(request.height * random.NextUniform(0.06, 0.22));
    object.x = static_cast<float>(
        random.NextUniform(object.radius_x, request.width - 1 - object.radius_x));
    object.y = static_cast<float>(
        random.NextUniform(object.radius_y, request.height - 1 - object.radius_y));
    object.color = base;
    for (float& channel : object.color) {
      channel += static_cast<float>(random.NextUniform(-20, 20));
    }
    objects.push_back(object);
  }
  return objects;
}

// How much of the object covers (x, y): 1 inside, fading to 0 at its rim.
float Coverage(const Ellipse& object, float x, float y) {
  const float dx = (x - object.x) / object.radius_x;
  const float dy = (y - object.y) / object.radius_y;
  return std::clamp((1.0f - dx * dx - dy * dy) * 6.0f, 0.0f, 1.0f);
}

}  // namespace

Photo DrawPhoto(const PhotoRequest& request) {
  SampleRandom random(request.seed, 0, request.index, StableHash("synth/photo"));
  const Color corner = RandomColor(random, 40, 200);
  const Color across = RandomColor(random, -60, 60);
  const Color down = RandomColor(random, -60, 60);
  const std::array<Clouds, 3> clouds = {Clouds(random, request.width, request.height, 48, 45.0f),
                                        Clouds(random, request.width, request.height, 12, 22.0f),
                                        Clouds(random, request.width, request.height, 3, 24.0f)};
  const std::vector<Ellipse> objects = PlaceObjects(request, random);
  Grain grain(random.Next32());

  Photo photo{request.width, request.height, {}, {}};
  photo.rgb.resize(static_cast<size_t>(request.width) * request.height * 3);
  for (const Ellipse& o : objects) {
    photo.boxes.push_back({o.x - o.radius_x, o.y - o.radius_y, o.x + o.radius_x, o.y + o.radius_y});
  }
  std::vector<float> light(request.width);
  uint8_t* out = photo.rgb.data();
  for (int y = 0; y < request.height; ++y) {
    std::fill(light.begin(), light.end(), 0.0f);
    for (const Clouds& layer : clouds) layer.AddRow(y, light);
    const float v = static_cast<float>(y) / static_cast<float>(request.height);
    for (int x = 0; x < request.width; ++x) {
      const float u = static_cast<float>(x) / static_cast<float>(request.width);
      Color pixel;
      for (int c = 0; c < 3; ++c) pixel[c] = corner[c] + across[c] * u + down[c] * v;
      for (const Ellipse& object : objects) {
        if (std::abs(static_cast<float>(y) - object.y) > object.radius_y) continue;
        const float cover = Coverage(object, static_cast<float>(x), static_cast<float>(y));
        for (int c = 0; c < 3; ++c) pixel[c] += (object.color[c] - pixel[c]) * cover;
      }
      const float brightness = light[x] + grain.Next() * 46.0f;
      for (int c = 0; c < 3; ++c) {
        *out++ = static_cast<uint8_t>(std::clamp(pixel[c] + brightness, 0.0f, 255.0f));
      }
    }
  }
  return photo;
}

}  // namespace bulkhead::tools
