#include "server/image/codecs/jpeg_codec.h"

#include <algorithm>
#include <cstdlib>

namespace bulkhead {
namespace {

// Columns decoded beside a region: smooth upsampling looks at the neighbouring chroma sample, and
// libjpeg takes the edge of a cropped row for the edge of the image.
constexpr int kColumnMargin = 1;
// libjpeg chooses a component's upsampling by its width in the cropped row; above this width the
// choice is that of the whole image.
constexpr int kMinRegionColumns = 32;
// Rows asked for at a time; more than libjpeg ever returns at once.
constexpr int kRowsPerCall = 8;

// The file is in memory as a whole: there is nothing to refill, and running dry is an error.
void DoNothing(j_decompress_ptr) {}

void SkipInputData(j_decompress_ptr codec, long count) {
  if (count <= 0) return;
  if (static_cast<unsigned long>(count) > codec->src->bytes_in_buffer) {
    JpegErrorManager::FailTruncated(reinterpret_cast<j_common_ptr>(codec));
  }
  codec->src->next_input_byte += count;
  codec->src->bytes_in_buffer -= count;
}

}  // namespace

JpegCodec::JpegCodec() {
  info.err = errors.Install(/*fail_on_warnings=*/true);
  Create();
  source.init_source = &DoNothing;
  source.fill_input_buffer = &FillInputBuffer;
  source.skip_input_data = &SkipInputData;
  source.resync_to_restart = &jpeg_resync_to_restart;
  source.term_source = &DoNothing;
}

boolean JpegCodec::FillInputBuffer(j_decompress_ptr info) {
  static constexpr JOCTET kEnd[] = {0xFF, JPEG_EOI};
  auto* codec = static_cast<JpegCodec*>(info->client_data);
  if (!codec->truncated) {
    JpegErrorManager::FailTruncated(reinterpret_cast<j_common_ptr>(info));
  }
  codec->errors.set_fail_on_warnings(false);
  info->src->next_input_byte = kEnd;
  info->src->bytes_in_buffer = sizeof(kEnd);
  return TRUE;
}

bool JpegCodec::WriteBand(const jpeg::Header& header, jvirt_barray_ptr* arrays, int band,
                          jpeg::CoefficientWriter& writer) {
  bool good = true;
  int number = 0;
  writer.BeginBand();
  for (int c = 0; c < header.component_count; ++c) {
    const jpeg::Component& component = header.components[c];
    const jpeg::QuantTable& quant = header.quant[component.quant_slot];
    JBLOCKARRAY rows = info.mem->access_virt_barray(
        reinterpret_cast<j_common_ptr>(&info), arrays[c],
        static_cast<JDIMENSION>(band * component.v), static_cast<JDIMENSION>(component.v), FALSE);
    for (int v = 0; v < component.v; ++v, ++number) {
      for (int i = 0; i < header.mcus_across() * component.h; ++i) {
        alignas(32) int16_t block[jpeg::kBlockCoefficients];
        std::copy_n(rows[v][i], jpeg::kBlockCoefficients, block);
        for (int k = 0; k < jpeg::kBlockCoefficients; ++k) {
          good &= std::abs(block[k] * quant[k]) <= (k == 0 ? jpeg::kMaxDc : jpeg::kMaxAc);
        }
        writer.row(number).Add(block, DefaultSimd());
      }
    }
  }
  writer.EndBand();
  return good;
}

bool JpegCodec::IsWhole(const jpeg::Header& header) const {
  for (int c = 0; c < header.component_count; ++c) {
    const JQUANT_TBL* const table = info.comp_info[c].quant_table;
    const jpeg::QuantTable& quant = header.quant[header.components[c].quant_slot];
    if (table == nullptr || !std::equal(quant.begin(), quant.end(), table->quantval)) return false;
    if (*std::max_element(quant.begin(), quant.end()) > jpeg::kMaxAc) return false;
    if (info.coef_bits == nullptr) continue;
    const auto is_exact = [](int bits_left) { return bits_left == 0; };
    if (!std::all_of(info.coef_bits[c], info.coef_bits[c] + DCTSIZE2, is_exact)) return false;
  }
  return true;
}

bool JpegCodec::CanDecodeRegion() const {
  if (truncated || !options.fancy_upsampling || options.scale != 1) return false;
  if (jpeg_has_multiple_scans(const_cast<j_decompress_ptr>(&info)) || info.arith_code) return false;
  if (info.num_components == 1) return true;
  if (info.num_components != 3) return false;
  for (int i = 1; i < 3; ++i) {
    if (info.comp_info[i].h_samp_factor != 1 || info.comp_info[i].v_samp_factor != 1) return false;
  }
  const int horizontal = info.comp_info[0].h_samp_factor;
  const int vertical = info.comp_info[0].v_samp_factor;
  return (horizontal == 1 && vertical == 1) || (horizontal == 2 && vertical <= 2);
}

int JpegCodec::StartRows(const Rect& rect, bool region) {
  jpeg_start_decompress(&info);
  if (!region) return 0;
  const int width = static_cast<int>(info.output_width);
  const int margin = info.max_h_samp_factor > 1 ? kColumnMargin : 0;
  int left = std::max(rect.left - margin, 0);
  int right = std::min(rect.right() + margin, width);
  if (right - left < kMinRegionColumns) {
    left = std::max(std::min(left, width - kMinRegionColumns), 0);
    right = std::min(std::max(right, left + kMinRegionColumns), width);
  }
  if (left == 0 && right == width) return 0;
  JDIMENSION first = static_cast<JDIMENSION>(left);
  JDIMENSION count = static_cast<JDIMENSION>(right - left);
  jpeg_crop_scanline(&info, &first, &count);
  return static_cast<int>(first);
}

void JpegCodec::SkipRows(int count, bool region) {
  if (count == 0) return;
  if (region) {
    jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(count));
    return;
  }
  JSAMPROW row = spare_row.Resize(static_cast<size_t>(info.output_width) * info.output_components);
  while (static_cast<int>(info.output_scanline) < count) jpeg_read_scanlines(&info, &row, 1);
}

void JpegCodec::ReadRows(const MutableImageView& rows, int first_row) {
  JSAMPROW pointers[kRowsPerCall];
  int done = static_cast<int>(info.output_scanline) - first_row;
  while (done < rows.height) {
    const int count = std::min(kRowsPerCall, rows.height - done);
    for (int i = 0; i < count; ++i) pointers[i] = rows.row(done + i);
    done += static_cast<int>(jpeg_read_scanlines(&info, pointers, count));
  }
}

}  // namespace bulkhead
