#include "server/image/codecs/jpeg_decoder.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/image/codecs/exif.h"
#include "server/image/codecs/jpeg_codec.h"
#include "server/image/codecs/jpeg_scan.h"
#include "server/image/jpeg/seek_entries.h"
#include "server/image/jpeg/sequential_decoder.h"

namespace bulkhead {
namespace {

// Coefficients are kept of files up to this size: they lie in a worker's memory while they are
// used.
constexpr size_t kMostKeptFile = size_t{1} << 20;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// By PixelFormat.
constexpr J_COLOR_SPACE kColorSpaces[] = {JCS_EXT_RGB, JCS_EXT_BGR, JCS_GRAYSCALE, JCS_EXT_RGBA};
static_assert(std::size(kColorSpaces) == static_cast<size_t>(PixelFormat::kRgba) + 1);

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

// Whether the options ask for the pixels that own decoding gives.
bool HasUsualPixels(const DecodeOptions& options) {
  return options.scale == 1 && options.fancy_upsampling && options.dct == DctMethod::kIslow;
}

}  // namespace

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
      codec_(std::make_unique<JpegCodec>()),
      own_(std::make_unique<jpeg::SequentialDecoder>()) {}
JpegDecoder::~JpegDecoder() = default;

absl::StatusOr<ImageSize> JpegDecoder::Open(absl::string_view file, uint64_t max_pixels,
                                            const DecodeOptions& options, FileBytes* source) {
  Begin(max_pixels, options);
  file_ = file;
  source_ = source;
  if (source == nullptr) kept_.ForgetRead();
  const auto chosen = source == nullptr ? std::nullopt : chosen_;
  uses_kept_ = UsesCoefficients(file.size(), options);
  looks_ = uses_kept_ && (chosen.has_value() ? *chosen : kept_.ShouldLook());
  unscanned_ = looks_ && OpenKept(max_pixels);
  if (!unscanned_) return OpenScanned();
  return own_->header().size;
}

std::optional<JpegDecoder::Unread> JpegDecoder::OpenUnread(FileBytes& file, uint64_t max_pixels,
                                                           const DecodeOptions& options) {
  Begin(max_pixels, options);
  chosen_.reset();
  if (!file.state().has_value() || !UsesCoefficients(file.size_bytes(), options)) {
    return std::nullopt;
  }
  chosen_ = kept_.ShouldLook();
  const jpeg::FileNote* const note = *chosen_ ? kept_.FindNote(*file.state()) : nullptr;
  if (note == nullptr || own_->Open(note->header, jpeg::Scans::kAny) != jpeg::Fallback::kNone) {
    return std::nullopt;
  }
  const ImageSize size = own_->header().size;
  if (uint64_t{1} * size.height * size.width > max_pixels) return std::nullopt;
  source_ = &file;
  key_ = note->coefficients;
  has_key_ = true;
  uses_kept_ = looks_ = has_kept_ = unscanned_ = true;
  return Unread{size, note->orientation};
}

void JpegDecoder::Begin(uint64_t max_pixels, const DecodeOptions& options) {
  jpeg_abort_decompress(&codec_->info);
  file_ = {};
  max_pixels_ = max_pixels;
  codec_->options = options;
  codec_->truncated = false;
  fallback_ = jpeg::Fallback::kNone;
  uses_kept_ = looks_ = has_kept_ = has_key_ = unscanned_ = false;
}

bool JpegDecoder::UsesCoefficients(uint64_t file_bytes, const DecodeOptions& options) const {
  return stores_.coefficients != nullptr && way_ != Way::kLibjpeg && file_bytes <= kMostKeptFile &&
         HasUsualPixels(options);
}

bool JpegDecoder::OpenKept(uint64_t max_pixels) {
  SetKey();
  has_kept_ = kept_.Has(key_);
  if (!has_kept_ || own_->Open(file_) != jpeg::Fallback::kNone) return false;
  const ImageSize size = own_->header().size;
  return uint64_t{1} * size.height * size.width <= max_pixels;
}

absl::StatusOr<ImageSize> JpegDecoder::OpenScanned() {
  const DecodeOptions& options = codec_->options;
  BULKHEAD_ASSIGN_OR_RETURN(const JpegStructure structure,
                            ScanJpeg(file_, max_pixels_, options.accept_truncated > 0));
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
  if (!HasUsualPixels(options)) return jpeg::Fallback::kOptions;
  if (structure.scan_count != 1) return jpeg::Fallback::kScans;
  return own_->Open(file_);
}

absl::Status JpegDecoder::OpenLibjpeg() {
  JpegCodec* codec = codec_.get();
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
  JpegCodec* codec = codec_.get();
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
  if (unscanned_) {
    unscanned_ = false;
    const MutableImageView out = buffer.Reshape({rect.height, rect.width}, ChannelCount(format));
    if (DecodeKept(format, rect, out, Making::kNone) == jpeg::Fallback::kNone) {
      Count(rect);
      return ImageView(out);
    }
    has_kept_ = false;
    BULKHEAD_RETURN_IF_ERROR(OpenRead());
  }
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
  if (scans) kept_.NoteAnew(Now() - begin, own_->mcu_count());
  return pixels;
}

absl::Status JpegDecoder::OpenRead() {
  const ImageSize noted = own_->header().size;
  if (file_.empty() && source_ != nullptr) {
    BULKHEAD_ASSIGN_OR_RETURN(file_, kept_.Read(*source_));
    has_key_ = false;
  }
  BULKHEAD_ASSIGN_OR_RETURN(const ImageSize size, OpenScanned());
  if (size == noted) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInternal, reason::kInternal,
                   "what the cache folder keeps of this image is that of an image of another size; "
                   "remove the files called coefficients-* there, and report this");
}

void JpegDecoder::Count(const Rect& rect) {
  ++counts_.files[static_cast<size_t>(jpeg::Fallback::kNone)];
  counts_.crops += rect == WholeImage(own_->header().size) ? 0 : 1;
  counts_.mcus += own_->mcu_count();
  counts_.mcus_read += own_->mcus_read();
  counts_.unread += file_.empty() ? 1 : 0;
}

StoreKey JpegDecoder::FileKey(const StoreKey& record, absl::string_view file) {
  const uint64_t parts[] = {record.words[0], record.words[1], Crc32c(file), file.size()};
  return KeyOf({reinterpret_cast<const char*>(parts), sizeof(parts)});
}

void JpegDecoder::SetKey() {
  if (!has_key_) key_ = FileKey(stores_.record, file_);
  has_key_ = true;
}

bool JpegDecoder::DecodeScans(PixelFormat format, const Rect& rect, const MutableImageView& out) {
  if (own_->Open(file_, jpeg::Scans::kAny) != jpeg::Fallback::kNone) return false;
  SetKey();
  return DecodeKept(format, rect, out, stores_.making) == jpeg::Fallback::kNone;
}

jpeg::Fallback JpegDecoder::DecodeHere(PixelFormat format, const Rect& rect,
                                       const MutableImageView& out) {
  if (file_.size() > std::numeric_limits<uint32_t>::max()) SetStores({});
  if (stores_.seek != nullptr || stores_.coefficients != nullptr) SetKey();
  if (DecodeKept(format, rect, out, stores_.making) == jpeg::Fallback::kNone)
    return jpeg::Fallback::kNone;
  const double begin = Now();
  const bool whole = rect == WholeImage(own_->header().size);
  const jpeg::Fallback reason =
      whole ? own_->Decode(format, rect, out) : DecodeCrop(format, rect, out);
  kept_.NoteAnew(Now() - begin, own_->mcu_count());
  return reason;
}

jpeg::Fallback JpegDecoder::DecodeKept(PixelFormat format, const Rect& rect,
                                       const MutableImageView& out, Making making) {
  if (!uses_kept_) return jpeg::Fallback::kForced;
  ValueStore* const store = stores_.coefficients;
  const double begin = Now();
  if (looks_ && !has_kept_) kept_.NoteVain(own_->mcu_count());
  // A file that is decoded anew to learn how long that takes is none to make them of.
  const bool is_trial = !looks_ && kept_.looks();
  const bool may_make = making == Making::kAll || (making != Making::kNone && store->HasRoom() &&
                                                   kept_.MayMake(begin) && !is_trial);
  if (!has_kept_ && !may_make) return jpeg::Fallback::kForced;
  const auto [top, bottom] = own_->BandsOf(format, rect);
  bool has_none = false;
  const auto part_of = [&](absl::string_view head) -> std::optional<ValuePart> {
    has_none = has_none || head.empty();
    if (!coefficients_.ParseHead(head, key_, own_->header())) return std::nullopt;
    return coefficients_.PartOf(top, bottom);
  };
  const size_t head_bytes = jpeg::Coefficients::HeadBytes(own_->header());
  // Behind damaged ones there may be others that were made since.
  constexpr int kMostDamaged = 2;
  int damaged = 0;
  bool found = false;
  while (!found && damaged <= kMostDamaged) {
    int heads = 0;
    const auto undamaged = [&](absl::string_view head) {
      return heads++ < damaged ? std::nullopt : part_of(head);
    };
    const auto part = store->FindPart(key_, head_bytes, undamaged, value_);
    if (!part.has_value()) break;
    found = coefficients_.SetBands(*part, top, bottom);
    if (!found) ++damaged;
  }
  if (!found) {
    const bool has_room =
        may_make && damaged <= kMostDamaged && (making != Making::kAll || store->AwaitRoom());
    if (has_none || !has_room) return jpeg::Fallback::kForced;
    const absl::string_view made = MakeCoefficients();
    const std::optional<ValuePart> needed = part_of(made);
    if (!needed.has_value() ||
        !coefficients_.SetBands(made.substr(needed->begin, needed->bytes), top, bottom)) {
      return jpeg::Fallback::kData;
    }
  }
  const jpeg::Fallback reason = own_->DecodeKept(format, rect, out, coefficients_);
  if (reason == jpeg::Fallback::kNone) NoteFile();
  if (!found) {
    kept_.NoteMaking(Now() - begin, own_->mcu_count());
  } else if (reason == jpeg::Fallback::kNone) {
    ++counts_.coefficients_found;
    kept_.NoteKept(Now() - begin, own_->mcu_count(), key_);
  }
  return reason;
}

void JpegDecoder::NoteFile() {
  const bool is_read = source_ != nullptr && !file_.empty();
  if (!is_read || stores_.making == Making::kNone || !source_->state().has_value()) return;
  const int orientation = ReadOrientation(ImageFormat::kJpeg, file_);
  kept_.AddNote(*source_->state(), key_, orientation, file_);
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
  JpegCodec* codec = codec_.get();
  jpeg_decompress_struct& info = codec->info;
  const bool cmyk = info.num_components == 4;
  info.out_color_space = cmyk ? JCS_CMYK : kColorSpaces[static_cast<int>(format)];
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
