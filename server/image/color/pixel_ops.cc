#include "server/image/color/pixel_ops.h"

#include <algorithm>

namespace bulkhead {
namespace {

using Histogram = std::array<uint32_t, 256>;

Histogram CountValues(const MutableImageView& image, int channel) {
  Histogram counts{};
  for (int y = 0; y < image.height; ++y) {
    const uint8_t* value = image.row(y) + channel;
    for (int x = 0; x < image.width; ++x, value += image.channels) ++counts[*value];
  }
  return counts;
}

void MapChannel(const ValueTable& table, int channel, const MutableImageView& image) {
  for (int y = 0; y < image.height; ++y) {
    uint8_t* value = image.row(y) + channel;
    for (int x = 0; x < image.width; ++x, value += image.channels) *value = table[*value];
  }
}

// Calls `make` with each channel's histogram and a table to fill; false: the channel stays.
template <typename MakeTable>
void MapChannels(const MutableImageView& image, MakeTable make) {
  for (int c = 0; c < image.channels; ++c) {
    ValueTable table;
    if (make(CountValues(image, c), table)) MapChannel(table, c, image);
  }
}

bool AutocontrastTable(const Histogram& counts, ValueTable& table) {
  int low = 0;
  while (low < 255 && counts[low] == 0) ++low;
  int high = 255;
  while (high > 0 && counts[high] == 0) --high;
  if (high <= low) return false;
  const double scale = 255.0 / (high - low);
  const double offset = -low * scale;
  for (int i = 0; i < 256; ++i) {
    table[i] = static_cast<uint8_t>(std::clamp(i * scale + offset, 0.0, 255.0));
  }
  return true;
}

bool EqualizeTable(const Histogram& counts, ValueTable& table) {
  uint64_t total = 0;
  uint64_t last = 0;  // how often the largest value occurs
  for (const uint32_t count : counts) {
    total += count;
    if (count != 0) last = count;
  }
  const uint64_t step = (total - last) / 255;
  if (step == 0) return false;
  uint64_t below = step / 2;
  for (int i = 0; i < 256; ++i) {
    table[i] = static_cast<uint8_t>(std::min<uint64_t>(below / step, 255));
    below += counts[i];
  }
  return true;
}

}  // namespace

void MapValues(const ValueTable& table, const MutableImageView& image) {
  const size_t row_bytes = image.row_bytes();
  for (int y = 0; y < image.height; ++y) {
    uint8_t* row = image.row(y);
    for (size_t i = 0; i < row_bytes; ++i) row[i] = table[row[i]];
  }
}

void Posterize(int bits, const MutableImageView& image) {
  const auto mask = static_cast<uint8_t>(0xFF << (8 - bits));
  const size_t row_bytes = image.row_bytes();
  for (int y = 0; y < image.height; ++y) {
    uint8_t* row = image.row(y);
    for (size_t i = 0; i < row_bytes; ++i) row[i] &= mask;
  }
}

void Solarize(int threshold, const MutableImageView& image) {
  if (threshold > 255) return;
  const auto bound = static_cast<uint8_t>(std::max(threshold, 0));
  const size_t row_bytes = image.row_bytes();
  for (int y = 0; y < image.height; ++y) {
    uint8_t* row = image.row(y);
    for (size_t i = 0; i < row_bytes; ++i) {
      row[i] = row[i] >= bound ? static_cast<uint8_t>(255 - row[i]) : row[i];
    }
  }
}

void Autocontrast(const MutableImageView& image) { MapChannels(image, AutocontrastTable); }

void Equalize(const MutableImageView& image) { MapChannels(image, EqualizeTable); }

}  // namespace bulkhead
