#include "server/image/codecs/jpeg_decoder.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>

#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/image/codecs/jpeg_error.h"
#include "server/image/codecs/jpeg_scan.h"
#include "server/image/jpeg/seek_entries.h"
#include "server/image/jpeg/sequential_decoder.h"

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
// Coefficients are kept of files up to this size: they lie in a worker's memory while they are
// used.
constexpr size_t kMostKeptFile = size_t{1} << 20;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The file is in memory as a whole: there is nothing to refill, and running dry is an error.
void InitSource(j_decompress_ptr) {}
void TermSource(j_decompress_ptr) {}

void SkipInputData(j_decompress_ptr codec, long count) {
  if (count <= 0) return;
  if (static_cast<unsigned long>(count) > codec->src->bytes_in_buffer) {
    JpegErrorManager::FailTruncated(reinterpret_cast<j_common_ptr>(codec));
  }
  codec->src->next_input_byte += count;
  codec->src->bytes_in_buffer -= count;
}

J_COLOR_SPACE ColorSpaceFor(PixelFormat format) {
  switch (format) {
    case PixelFormat::kRgb:
      return JCS_EXT_RGB;
    case PixelFormat::kBgr:
      return JCS_EXT_BGR;
    case PixelFormat::kGray:
      return JCS_GRAYSCALE;
    case PixelFormat::kRgba:
      return JCS_EXT_RGBA;
  }
  return JCS_EXT_RGB;
}

// a × b / 255, rounded.
int MultipliedShares(int a, int b) {
  const int product = a * b + 128;
  return (product + (product >> 8)) >> 8;
}

// Inverted CMYK, as Adobe writes it, to `format`, with the integer arithmetic of Pillow's
// convert().
void ConvertCmykRow(const uint8_t* cmyk, int width, PixelFormat format, uint8_t* out) {
  const int channels = ChannelCount(format);
  for (int x = 0; x < width; ++x, cmyk += 4, out += channels) {
    const int black = cmyk[3];
    const int red = black - MultipliedShares(255 - cmyk[0], black);
    const int green = black - MultipliedShares(255 - cmyk[1], black);
    const int blue = black - MultipliedShares(255 - cmyk[2], black);
    if (format == PixelFormat::kGray) {
      // Weights 0.299, 0.587, 0.114 in units of 2^-16, rounded.
      out[0] = static_cast<uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 32768) >> 16);
      continue;
    }
    out[0] = static_cast<uint8_t>(format == PixelFormat::kBgr ? blue : red);
    out[1] = static_cast<uint8_t>(green);
    out[2] = static_cast<uint8_t>(format == PixelFormat::kBgr ? red : blue);
    if (format == PixelFormat::kRgba) out[3] = 255;
  }
}

}  // namespace

struct JpegDecoder::Codec {
  jpeg_decompress_struct info;
  jpeg_source_mgr source;
  JpegErrorManager errors;
  ScratchBuffer spare_row;
  DecodeOptions options;
  bool truncated = false;  // the file ends early, and may

  Codec() {
    info.err = errors.Install(/*fail_on_warnings=*/true);
    Create();
    source.init_source = &InitSource;
    source.fill_input_buffer = &FillInputBuffer;
    source.skip_input_data = &SkipInputData;
    source.resync_to_restart = &jpeg_resync_to_restart;
    source.term_source = &TermSource;
  }
  ~Codec() { jpeg_destroy_decompress(&info); }

  void Create() {
    // Only refused memory can end this.
    if (!errors.Run([this] { jpeg_create_decompress(&info); })) errors.ToStatus().IgnoreError();
    info.client_data = this;
    info.src = &source;
  }
  // Tables outlive the image in libjpeg: a file that lacks some would be decoded by those of the
  // file before, and its verdict depend on that.
  void Forget() {
    jpeg_destroy_decompress(&info);
    Create();
  }

  // Of a file that may end early: an end-of-image marker, behind which libjpeg goes on with gray.
  static boolean FillInputBuffer(j_decompress_ptr info) {
    static constexpr JOCTET kEnd[] = {0xFF, JPEG_EOI};
    auto* codec = static_cast<Codec*>(info->client_data);
    if (!codec->truncated) {
      JpegErrorManager::FailTruncated(reinterpret_cast<j_common_ptr>(info));
    }
    codec->errors.set_fail_on_warnings(false);
    info->src->next_input_byte = kEnd;
    info->src->bytes_in_buffer = sizeof(kEnd);
    return TRUE;
  }

  // Whether decoding a part of a row, and skipping rows above it, is bit-exact: known of these
  // samplings of a baseline file, by test.
  bool CanDecodeRegion() const;
  // Sets up output rows that cover `rect` and makes them as narrow as allowed. Returns the column
  // where they begin. Calls libjpeg: for JpegErrorManager::Run only, as the next.
  int StartRows(const Rect& rect, bool region);
  void ReadRows(const MutableImageView& rows, int first_row);
  void SkipRows(int count, bool region);

  // Writes the coefficients of a band of MCUs. False when one of them is so large that decoders
  // differ. Calls libjpeg.
  bool WriteBand(const jpeg::Header& header, jvirt_barray_ptr* arrays, int band,
                 jpeg::CoefficientWriter& writer);
  // Whether all coefficients of the file were there, and are those of the header's quantization
  // tables. What a progressive file leaves out libjpeg makes up.
  bool IsWhole(const jpeg::Header& header) const;
};

bool JpegDecoder::Codec::WriteBand(const jpeg::Header& header, jvirt_barray_ptr* arrays, int band,
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

bool JpegDecoder::Codec::IsWhole(const jpeg::Header& header) const {
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

bool JpegDecoder::Codec::CanDecodeRegion() const {
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

int JpegDecoder::Codec::StartRows(const Rect& rect, bool region) {
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

void JpegDecoder::Codec::SkipRows(int count, bool region) {
  if (count == 0) return;
  if (region) {
    jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(count));
    return;
  }
  JSAMPROW row = spare_row.Resize(static_cast<size_t>(info.output_width) * info.output_components);
  while (static_cast<int>(info.output_scanline) < count) jpeg_read_scanlines(&info, &row, 1);
}

void JpegDecoder::Codec::ReadRows(const MutableImageView& rows, int first_row) {
  JSAMPROW pointers[kRowsPerCall];
  int done = static_cast<int>(info.output_scanline) - first_row;
  while (done < rows.height) {
    const int count = std::min(kRowsPerCall, rows.height - done);
    for (int i = 0; i < count; ++i) pointers[i] = rows.row(done + i);
    done += static_cast<int>(jpeg_read_scanlines(&info, pointers, count));
  }
}

JpegDecoder::Way JpegDecoder::DefaultWay() {
  static const Way way = [] {
    const char* wanted = std::getenv("BULKHEAD_JPEG");
    return wanted != nullptr && absl::string_view(wanted) == "libjpeg" ? Way::kLibjpeg
                                                                       : Way::kFastest;
  }();
  return way;
}

JpegDecoder::JpegDecoder(Way way)
    : way_(way),
      codec_(std::make_unique<Codec>()),
      own_(std::make_unique<jpeg::SequentialDecoder>()) {}
JpegDecoder::~JpegDecoder() = default;

absl::StatusOr<ImageSize> JpegDecoder::Open(absl::string_view file, uint64_t max_pixels,
                                            const DecodeOptions& options) {
  jpeg_abort_decompress(&codec_->info);
  BULKHEAD_ASSIGN_OR_RETURN(const JpegStructure structure,
                            ScanJpeg(file, max_pixels, options.accept_truncated > 0));
  file_ = file;
  codec_->options = options;
  codec_->truncated = structure.truncated;
  fallback_ = ChooseWay(structure);
  if (fallback_ == jpeg::Fallback::kNone) return structure.size;
  BULKHEAD_RETURN_IF_ERROR(OpenLibjpeg());
  if (structure.truncated && jpeg_has_multiple_scans(&codec_->info)) {
    return SampleError(reason::kTruncatedImage,
                       "this JPEG ends early and is progressive, which cannot be recovered row by "
                       "row; copy the file again");
  }
  if (options.scale == 1) return structure.size;
  return ImageSize{static_cast<int>(codec_->info.output_height),
                   static_cast<int>(codec_->info.output_width)};
}

jpeg::Fallback JpegDecoder::ChooseWay(const JpegStructure& structure) {
  const DecodeOptions& options = codec_->options;
  if (way_ == Way::kLibjpeg) return jpeg::Fallback::kForced;
  if (structure.truncated) return jpeg::Fallback::kTruncated;
  if (options.scale != 1 || !options.fancy_upsampling || options.dct != DctMethod::kIslow) {
    return jpeg::Fallback::kOptions;
  }
  if (structure.scan_count != 1) return jpeg::Fallback::kScans;
  return own_->Open(file_);
}

absl::Status JpegDecoder::OpenLibjpeg() {
  Codec* codec = codec_.get();
  codec->Forget();
  codec->errors.set_fail_on_warnings(true);
  codec->source.next_input_byte = reinterpret_cast<const JOCTET*>(file_.data());
  codec->source.bytes_in_buffer = file_.size();
  const bool read = codec->errors.Run([codec] {
    jpeg_decompress_struct& info = codec->info;
    jpeg_read_header(&info, TRUE);
    info.scale_num = 1;
    info.scale_denom = static_cast<unsigned>(codec->options.scale);
    if (codec->options.scale != 1) jpeg_calc_output_dimensions(&info);
  });
  return read ? absl::OkStatus() : codec->errors.ToStatus();
}

absl::Status JpegDecoder::ReadTruncated(const MutableImageView& rows) {
  Codec* codec = codec_.get();
  int complete = rows.height;
  const bool read = codec->errors.Run([&] {
    const long warnings = codec->errors.warning_count();
    for (int y = 0; y < rows.height; ++y) {
      JSAMPROW row = rows.row(y);
      jpeg_read_scanlines(&codec->info, &row, 1);
      if (codec->errors.warning_count() > warnings) complete = std::min(complete, y);
    }
  });
  if (!read) return codec->errors.ToStatus();
  if (complete < codec->options.accept_truncated * rows.height) {
    return SampleError(reason::kTruncatedImage,
                       absl::StrCat("this JPEG ends after ", complete, " of ", rows.height,
                                    " rows, fewer than are accepted; copy the file again"));
  }
  return absl::OkStatus();
}

uint64_t JpegDecoder::PlannedBytes(PixelFormat format, const Rect& rect) const {
  if (fallback_ == jpeg::Fallback::kNone) {
    // libjpeg may have to do it after all, which takes whole rows of rare samplings.
    const jpeg::Header& header = own_->header();
    const bool rare = header.h_max == 4 || (header.h_max == 1 && header.v_max == 2);
    const uint64_t columns = rare ? header.size.width : rect.width;
    return columns * rect.height * ChannelCount(format);
  }
  const jpeg_decompress_struct& info = codec_->info;
  const uint64_t columns = codec_->CanDecodeRegion() ? rect.width : info.image_width;
  const uint64_t rows = codec_->truncated ? info.image_height : rect.height;
  const uint64_t channels = info.num_components == 4 ? 4 : ChannelCount(format);
  uint64_t bytes = columns * rows * channels;
  if (!jpeg_has_multiple_scans(const_cast<j_decompress_ptr>(&info))) return bytes;
  for (int i = 0; i < info.num_components; ++i) {
    const jpeg_component_info& component = info.comp_info[i];
    bytes += uint64_t{component.width_in_blocks} * component.height_in_blocks * sizeof(JBLOCK);
  }
  return bytes;
}

absl::StatusOr<ImageView> JpegDecoder::Decode(PixelFormat format, const Rect& rect, Image& buffer) {
  const bool scans = fallback_ == jpeg::Fallback::kScans && stores_.coefficients != nullptr;
  const bool tried = fallback_ == jpeg::Fallback::kNone || scans;
  if (tried) {
    const MutableImageView out = buffer.Reshape({rect.height, rect.width}, ChannelCount(format));
    if (!scans) fallback_ = DecodeHere(format, rect, out);
    if (scans ? DecodeScans(format, rect, out) : fallback_ == jpeg::Fallback::kNone) {
      Count(rect);
      return ImageView(out);
    }
  }
  ++counts_.files[static_cast<size_t>(fallback_)];
  const double begin = Now();
  // What it means that it was tried in vain libjpeg says.
  if (tried) BULKHEAD_RETURN_IF_ERROR(OpenLibjpeg());
  absl::StatusOr<ImageView> pixels = DecodeOpened(format, rect, buffer);
  // What libjpeg holds of the file goes, also that of a bad one.
  jpeg_abort_decompress(&codec_->info);
  if (scans) policy_.NoteAnew(Now() - begin, own_->mcu_count());
  return pixels;
}

void JpegDecoder::Count(const Rect& rect) {
  ++counts_.files[static_cast<size_t>(jpeg::Fallback::kNone)];
  counts_.crops += rect == WholeImage(own_->header().size) ? 0 : 1;
  counts_.mcus += own_->mcu_count();
  counts_.mcus_read += own_->mcus_read();
}

StoreKey JpegDecoder::FileKey(const StoreKey& record, absl::string_view file) {
  const uint64_t parts[] = {record.words[0], record.words[1], Crc32c(file), file.size()};
  return KeyOf({reinterpret_cast<const char*>(parts), sizeof(parts)});
}

void JpegDecoder::SetKey() { key_ = FileKey(stores_.record, file_); }

bool JpegDecoder::DecodeScans(PixelFormat format, const Rect& rect, const MutableImageView& out) {
  if (own_->Open(file_, jpeg::Scans::kAny) != jpeg::Fallback::kNone) return false;
  SetKey();
  return DecodeKept(format, rect, out) == jpeg::Fallback::kNone;
}

jpeg::Fallback JpegDecoder::DecodeHere(PixelFormat format, const Rect& rect,
                                       const MutableImageView& out) {
  if (file_.size() > std::numeric_limits<uint32_t>::max()) stores_ = {};
  if (stores_.seek != nullptr || stores_.coefficients != nullptr) SetKey();
  if (DecodeKept(format, rect, out) == jpeg::Fallback::kNone) return jpeg::Fallback::kNone;
  const double begin = Now();
  const bool whole = rect == WholeImage(own_->header().size);
  const jpeg::Fallback reason =
      whole ? own_->Decode(format, rect, out) : DecodeCrop(format, rect, out);
  policy_.NoteAnew(Now() - begin, own_->mcu_count());
  return reason;
}

jpeg::Fallback JpegDecoder::DecodeKept(PixelFormat format, const Rect& rect,
                                       const MutableImageView& out) {
  ValueStore* const store = stores_.coefficients;
  if (store == nullptr || file_.size() > kMostKeptFile) return jpeg::Fallback::kForced;
  const bool all = stores_.making == Making::kAll;
  if (!policy_.ShouldRead() && !all) return jpeg::Fallback::kForced;
  const double begin = Now();
  const auto [top, bottom] = own_->BandsOf(format, rect);
  bool has_none = false;
  const auto part_of = [&](absl::string_view head) -> std::optional<ValuePart> {
    has_none = has_none || head.empty();
    if (!coefficients_.ParseHead(head, key_, own_->header())) return std::nullopt;
    return coefficients_.PartOf(top, bottom);
  };
  const size_t head_bytes = jpeg::Coefficients::HeadBytes(own_->header());
  const bool found = store->FindPart(key_, head_bytes, part_of, value_);
  absl::string_view bands = value_;
  if (!found) {
    const bool may_make =
        all ? store->AwaitRoom()
            : stores_.making != Making::kNone && store->HasRoom() && policy_.MayMake(begin);
    if (has_none || !may_make) return jpeg::Fallback::kForced;
    const absl::string_view made = MakeCoefficients();
    const std::optional<ValuePart> part = part_of(made);
    if (!part.has_value()) return jpeg::Fallback::kData;
    bands = made.substr(part->begin, part->bytes);
  }
  if (!coefficients_.SetBands(bands, top, bottom)) return jpeg::Fallback::kData;
  const jpeg::Fallback reason = own_->DecodeKept(format, rect, out, coefficients_);
  if (!found) {
    policy_.NoteMaking(Now() - begin, own_->mcu_count());
  } else if (reason == jpeg::Fallback::kNone) {
    ++counts_.coefficients_found;
    policy_.NoteKept(Now() - begin, own_->mcu_count());
  }
  return reason;
}

absl::string_view JpegDecoder::MakeCoefficients() {
  const bool good = fallback_ == jpeg::Fallback::kScans
                        ? WriteCoefficients()
                        : own_->WriteCoefficients(key_, writer_) == jpeg::Fallback::kNone;
  // Of a file without coefficients is kept that it has none.
  const absl::string_view bytes = good ? writer_.bytes() : jpeg::Coefficients::None();
  bool kept = stores_.coefficients->Add(key_, bytes);
  // The segment may be full, and the next one on its way.
  if (!kept && stores_.making == Making::kAll && stores_.coefficients->AwaitRoom()) {
    kept = stores_.coefficients->Add(key_, bytes);
  }
  if (kept) ++counts_.coefficients_made;
  return bytes;
}

bool JpegDecoder::WriteCoefficients() {
  bool good = true;
  writer_.Begin(key_, own_->header());
  const bool read = codec_->errors.Run([&] {
    jvirt_barray_ptr* const arrays = jpeg_read_coefficients(&codec_->info);
    for (int band = 0; band < own_->header().mcus_down() && good; ++band) {
      good = codec_->WriteBand(own_->header(), arrays, band, writer_);
    }
  });
  return read && good && codec_->IsWhole(own_->header()) && writer_.Finish();
}

jpeg::Fallback JpegDecoder::DecodeCrop(PixelFormat format, const Rect& rect,
                                       const MutableImageView& out) {
  if (stores_.seek == nullptr) return own_->Decode(format, rect, out);
  if (stores_.seek->Find(key_, value_)) {
    jpeg::SeekEntries known;
    if (!known.Parse(value_, own_->header())) return own_->Decode(format, rect, out);
    ++counts_.entries_found;
    return own_->Decode(format, rect, out, DefaultSimd(), &known);
  }
  if (stores_.making == Making::kNone || !stores_.seek->HasRoom())
    return own_->Decode(format, rect, out);
  absl::string_view made;
  const jpeg::Fallback reason = own_->DecodeAndIndex(format, rect, out, made);
  if (reason == jpeg::Fallback::kNone && !made.empty()) {
    if (stores_.seek->Add(key_, made)) ++counts_.entries_made;
  }
  return reason;
}

absl::StatusOr<ImageView> JpegDecoder::DecodeOpened(PixelFormat format, const Rect& rect,
                                                    Image& buffer) {
  Codec* codec = codec_.get();
  jpeg_decompress_struct& info = codec->info;
  const bool cmyk = info.num_components == 4;
  info.out_color_space = cmyk ? JCS_CMYK : ColorSpaceFor(format);
  info.dct_method = codec->options.dct == DctMethod::kIfast ? JDCT_IFAST : JDCT_ISLOW;
  info.do_fancy_upsampling = codec->options.fancy_upsampling ? TRUE : FALSE;
  const bool region = codec->CanDecodeRegion();

  int first_column = 0;
  if (!codec->errors.Run([&] { first_column = codec->StartRows(rect, region); })) {
    return codec->errors.ToStatus();
  }
  const int first_row = codec->truncated ? 0 : rect.top;
  const ImageSize rows_size{codec->truncated ? static_cast<int>(info.output_height) : rect.height,
                            static_cast<int>(info.output_width)};
  const MutableImageView rows = buffer.Reshape(rows_size, info.output_components);
  if (codec->truncated) {
    BULKHEAD_RETURN_IF_ERROR(ReadTruncated(rows));
  } else if (!codec->errors.Run([&] {
               codec->SkipRows(rect.top, region);
               codec->ReadRows(rows, rect.top);
             })) {
    return codec->errors.ToStatus();
  }

  const MutableImageView pixels =
      rows.Crop({rect.top - first_row, rect.left - first_column, rect.height, rect.width});
  if (!cmyk) return ImageView(pixels);
  // Narrower or as wide a pixel each: converted in place, left to right.
  const int channels = ChannelCount(format);
  for (int y = 0; y < pixels.height; ++y) {
    ConvertCmykRow(pixels.row(y), pixels.width, format, pixels.row(y));
  }
  return ImageView{pixels.data, pixels.height, pixels.width, channels, pixels.stride};
}

}  // namespace bulkhead
