#include "server/cache/segment.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/random.h"
#include "server/base/read_fault.h"
#include "server/os/event_loop.h"
#include "server/os/files/filesystem.h"
#include "server/os/files/read_ahead.h"

namespace bulkhead {
namespace {

constexpr char kMagic[8] = {'b', 'k', 'h', 's', 'e', 'g', '0', '2'};
constexpr uint64_t kValueAlignment = 8;
// File bytes per slot. With small values a segment runs out of slots first.
constexpr uint64_t kBytesPerSlot = 1024;
// The largest share of slots that a segment fills, in eighths.
constexpr uint64_t kMostEighths = 6;

// Slots that are read at a time, of the nearest three quarters taken.
constexpr uint64_t kSlotsAtOnce = 8;

// Bytes that a fault maps around the written ones, and mapped bytes at which the mapping is
// dropped.
constexpr uint64_t kTouchedAround = uint64_t{64} << 10;
constexpr uint64_t kMostTouched = uint64_t{128} << 10;

// Longer values are checked piece by piece before they are read.
constexpr uint64_t kMostUnchecked = uint64_t{1} << 20;

// Nanoseconds after which a segment may have grown, or have left the page cache.
constexpr int64_t kWarmAgain = 60'000'000'000;

constexpr uint32_t kFree = 0;
constexpr uint32_t kTaken = 1;

uint32_t Checksum(const StoreKey& key, absl::string_view value) {
  const absl::string_view words(reinterpret_cast<const char*>(key.words), sizeof(key.words));
  return Crc32c(value, Crc32c(words));
}

uint64_t HashOf(const StoreKey& key) { return MixBits(key.words[0], key.words[1]); }

template <typename Value>
absl::string_view BytesOf(const Value& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

uint64_t RoundedUp(uint64_t bytes) {
  return (bytes + kValueAlignment - 1) / kValueAlignment * kValueAlignment;
}

absl::Status NotASegment() { return absl::DataLossError("this is not a segment of a cache"); }

}  // namespace

struct Segment::Header {
  char magic[8];
  uint64_t bytes;
  uint64_t slot_count;  // a power of two
  uint32_t crc32c;      // of the preceding fields
  uint32_t full;        // written by the writer
  uint8_t unused[32];
};

struct Segment::Slot {
  StoreKey key;
  uint32_t place;  // start of the value in the file, in units of kValueAlignment
  uint32_t bytes;
  uint32_t crc32c;  // of key and value
  uint32_t state;   // written last
};

namespace {

template <typename Header>
uint32_t HeaderChecksum(const Header& header) {
  return Crc32c({reinterpret_cast<const char*>(&header), offsetof(Header, crc32c)});
}

template <typename Header>
bool ReadHeader(int fd, Header& header) {
  const auto bytes = ReadPrefix(fd, sizeof(header));
  if (!bytes.ok() || bytes->size() != sizeof(header)) return false;
  std::memcpy(&header, bytes->data(), sizeof(header));
  return true;
}

}  // namespace

absl::Status Segment::Format(int fd, uint64_t bytes) {
  static_assert(sizeof(Header) == 64 && sizeof(Slot) == 32);
  static_assert(kMostBytes / kValueAlignment <= std::numeric_limits<uint32_t>::max());
  if (bytes < kLeastBytes || bytes > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes, " bytes is not a valid size of a segment"));
  }
  if (absl::Status allocated = AllocateFile(fd, bytes); !allocated.ok()) return allocated;
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.bytes = bytes;
  header.slot_count = std::bit_floor(bytes / kBytesPerSlot);
  header.crc32c = HeaderChecksum(header);
  return WriteExactly(fd, 0, BytesOf(header));
}

uint64_t Segment::PlaceOfSlot(uint64_t number) { return sizeof(Header) + number * sizeof(Slot); }

absl::StatusOr<Segment> Segment::Open(int fd, bool writable) {
  Header header;
  if (!ReadHeader(fd, header) || std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 ||
      header.crc32c != HeaderChecksum(header)) {
    return NotASegment();
  }
  // The checksum does not protect against a malicious writer.
  const bool sound = std::has_single_bit(header.slot_count) && header.bytes >= kLeastBytes &&
                     header.bytes <= kMostBytes &&
                     header.slot_count <= header.bytes / (2 * sizeof(Slot));
  if (!sound) return NotASegment();
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd own, DuplicateFd(fd));
  Segment segment(std::move(own), header.bytes, header.slot_count - 1);
  if (!segment.IsWhole()) return NotASegment();
  if (writable) {
    BULKHEAD_ASSIGN_OR_RETURN(segment.map_, MemoryMap::Map(fd, header.bytes));
    segment.FindEnd();
  }
  return segment;
}

absl::StatusOr<Segment> Segment::OpenForReading(int fd) { return Open(fd, false); }

absl::StatusOr<Segment> Segment::OpenForWriting(int fd) { return Open(fd, true); }

bool Segment::IsFull(int fd) {
  Header header;
  return ReadHeader(fd, header) && header.full != 0;
}

bool Segment::full() const { return !IsWhole() || IsFull(fd_.get()); }

bool Segment::IsWhole() const {
  if (is_unusable()) return false;
  const absl::StatusOr<uint64_t> bytes = FileSize(fd_.get());
  return (bytes.ok() && *bytes >= bytes_) || NoteUnusable();
}

bool Segment::is_unusable() const {
  return std::atomic_ref(unusable_).load(std::memory_order_relaxed) != 0;
}

bool Segment::NoteUnusable() const {
  std::atomic_ref(unusable_).store(1, std::memory_order_relaxed);
  return false;
}

bool Segment::Read(uint64_t place, uint64_t bytes, void* to) const {
  return ReadExactly(fd_.get(), place, static_cast<char*>(to), bytes) || NoteUnusable();
}

bool Segment::Write(uint64_t place, absl::string_view bytes) {
  if (!ReadGuarded([&] { std::memcpy(map_.data() + place, bytes.data(), bytes.size()); })) {
    return NoteUnusable();
  }
  touched_ += bytes.size() + kTouchedAround;
  if (touched_ >= kMostTouched) {
    touched_ = 0;
    map_.Forget(0, map_.size());
  }
  return true;
}

template <uint64_t kAtOnce, typename Use>
bool Segment::ForEachSlot(uint64_t hash, const Use& use) const {
  std::array<Slot, kAtOnce> slots;
  for (uint64_t seen = 0; seen <= slot_mask_ && !is_unusable();) {
    const uint64_t first = (hash + seen) & slot_mask_;
    const uint64_t count = std::min({kAtOnce, slot_mask_ + 1 - first, slot_mask_ + 1 - seen});
    if (!Read(PlaceOfSlot(first), count * sizeof(Slot), slots.data())) return false;
    for (uint64_t i = 0; i < count; ++i) {
      if (use(slots[i], first + i)) return true;
    }
    seen += count;
  }
  return false;
}

void Segment::FindEnd() {
  end_ = RoundedUp(PlaceOfSlot(slot_mask_ + 1));
  ForEachSlot<2048>(0, [&](const Slot& slot, uint64_t /*number*/) {
    if (slot.state != kTaken) return false;
    ++values_;
    const uint64_t end = RoundedUp(uint64_t{slot.place} * kValueAlignment + slot.bytes);
    if (end <= bytes_) end_ = std::max(end_, end);
    return false;
  });
}

template <typename Use>
bool Segment::ForEachValue(const StoreKey& key, const Use& use) const {
  bool used = false;
  ForEachSlot<kSlotsAtOnce>(HashOf(key), [&](const Slot& slot, uint64_t /*number*/) {
    if (slot.state != kTaken) return true;
    if (slot.key != key) return false;
    const ValuePart value = {uint64_t{slot.place} * kValueAlignment, slot.bytes};
    if (value.begin > bytes_ || value.bytes > bytes_ - value.begin) return false;
    return used = use(value, slot.crc32c);
  });
  return used;
}

std::optional<uint32_t> Segment::ChecksumOf(const StoreKey& key, const ValuePart& value) const {
  std::string piece;
  uint32_t crc32c = Checksum(key, {});
  for (uint64_t done = 0; done < value.bytes; done += piece.size()) {
    piece.resize(std::min(value.bytes - done, kMostUnchecked));
    if (!Read(value.begin + done, piece.size(), piece.data())) return std::nullopt;
    crc32c = Crc32c(piece, crc32c);
  }
  return crc32c;
}

bool Segment::Has(const StoreKey& key) const {
  bool has = false;
  ForEachValue(key, [&](const ValuePart& value, uint32_t /*crc32c*/) {
    has = value.bytes > 0;
    return true;
  });
  return has;
}

bool Segment::Expect(const StoreKey& key) const {
  return ForEachValue(key, [&](const ValuePart& value, uint32_t /*crc32c*/) {
    ReadAhead(fd_.get(), value.begin, value.bytes);
    return true;
  });
}

bool Segment::Warm(const StoreKey& key) const {
  if (!Has(key)) return false;
  const int64_t now_ns = MonotonicNanos();
  const std::atomic_ref asked_ns(warmed_ns_);
  if (now_ns - asked_ns.load(std::memory_order_relaxed) > kWarmAgain && ReadAheadWhole(fd_.get())) {
    asked_ns.store(now_ns, std::memory_order_relaxed);
  }
  return true;
}

bool Segment::Find(const StoreKey& key, std::string& value) const {
  return ForEachValue(key, [&](const ValuePart& found, uint32_t crc32c) {
    // A slot's length may be damaged, too: no memory is taken for it before it is known to be
    // right.
    if (found.bytes > kMostUnchecked && ChecksumOf(key, found) != crc32c) return false;
    value.resize(found.bytes);
    return Read(found.begin, found.bytes, value.data()) && Checksum(key, value) == crc32c;
  });
}

std::optional<absl::string_view> Segment::FindPart(const StoreKey& key, size_t head_bytes,
                                                   ChoosePart choose, std::string& buffer) const {
  std::optional<absl::string_view> part;
  const auto read = [&](uint64_t place, uint64_t bytes) {
    if (buffer.size() < bytes) buffer.resize(bytes);
    return Read(place, bytes, buffer.data());
  };
  ForEachValue(key, [&](const ValuePart& value, uint32_t /*crc32c*/) {
    const uint64_t head = std::min<uint64_t>(head_bytes, value.bytes);
    if (!read(value.begin, head)) return true;
    const std::optional<ValuePart> chosen = choose({buffer.data(), head});
    // A damaged value may have been made anew.
    if (!chosen.has_value()) return false;
    if (chosen->begin <= value.bytes && chosen->bytes <= value.bytes - chosen->begin &&
        read(value.begin + chosen->begin, chosen->bytes)) {
      part = absl::string_view(buffer.data(), chosen->bytes);
    }
    return part.has_value();
  });
  return part;
}

bool Segment::Add(const StoreKey& key, absl::string_view value) {
  if (!IsWhole()) return false;
  if (value.size() > bytes_ / 2) {
    // If the first value is too large, others will be too; the next segment is larger.
    if (values_ == 0 && bytes_ < kLargeBytes) NoteFull();
    return false;
  }
  const bool has_room = 8 * (values_ + 1) <= kMostEighths * (slot_mask_ + 1) && end_ <= bytes_ &&
                        value.size() <= bytes_ - end_;
  std::optional<uint64_t> free;
  if (has_room) {
    ForEachSlot<kSlotsAtOnce>(HashOf(key), [&](const Slot& slot, uint64_t number) {
      if (slot.state == kFree) free = number;
      return free.has_value();
    });
  }
  if (!free.has_value()) {
    NoteFull();
    return false;
  }
  const Slot slot = {key, static_cast<uint32_t>(end_ / kValueAlignment),
                     static_cast<uint32_t>(value.size()), Checksum(key, value), kFree};
  // The value exists once its slot says so.
  const uint64_t place = PlaceOfSlot(*free);
  if (!Write(end_, value) || !Write(place, BytesOf(slot)) ||
      !Write(place + offsetof(Slot, state), BytesOf(kTaken))) {
    return false;
  }
  ++values_;
  end_ = RoundedUp(end_ + value.size());
  return true;
}

void Segment::NoteFull() {
  const uint32_t full = 1;
  Write(offsetof(Header, full), BytesOf(full));
}

}  // namespace bulkhead
