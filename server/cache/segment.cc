#include "server/cache/segment.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/random.h"
#include "server/base/read_fault.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {
namespace {

constexpr char kMagic[8] = {'b', 'k', 'h', 's', 'e', 'g', '0', '2'};
constexpr uint64_t kValueAlignment = 8;
// File bytes per slot. With small values a segment runs out of slots first.
constexpr uint64_t kBytesPerSlot = 1024;
// The largest share of slots that a segment fills, in eighths.
constexpr uint64_t kMostEighths = 6;

// Bytes that a fault maps around the accessed ones, and mapped bytes at which the mapping is
// dropped.
constexpr uint64_t kTouchedAround = uint64_t{64} << 10;
constexpr uint64_t kMostTouched = uint64_t{1} << 20;

constexpr uint32_t kFree = 0;
constexpr uint32_t kTaken = 1;

uint32_t Checksum(const StoreKey& key, absl::string_view value) {
  const absl::string_view words(reinterpret_cast<const char*>(key.words), sizeof(key.words));
  return Crc32c(value, Crc32c(words));
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
  return WritePrefix(fd, {reinterpret_cast<const char*>(&header), sizeof(header)});
}

Segment::Header& Segment::header() const { return *reinterpret_cast<Header*>(map_.data()); }

Segment::Slot& Segment::slot(uint64_t number) const {
  return reinterpret_cast<Slot*>(map_.data() + sizeof(Header))[number & slot_mask_];
}

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
  auto map = writable ? MemoryMap::Map(fd, header.bytes) : MemoryMap::MapReadOnly(fd, header.bytes);
  if (!map.ok()) return map.status();
  Segment segment(*std::move(map));
  segment.slot_mask_ = header.slot_count - 1;
  if (writable && !ReadGuarded([&] { segment.FindEnd(); })) return NotASegment();
  return segment;
}

absl::StatusOr<Segment> Segment::OpenForReading(int fd) { return Open(fd, false); }

absl::StatusOr<Segment> Segment::OpenForWriting(int fd) { return Open(fd, true); }

bool Segment::IsFull(int fd) {
  Header header;
  return ReadHeader(fd, header) && header.full != 0;
}

bool Segment::full() const {
  bool full = true;
  const bool readable = !is_unusable() && ReadGuarded([&] {
    full = std::atomic_ref(header().full).load(std::memory_order_relaxed) != 0;
  });
  return full || !readable;
}

bool Segment::is_unusable() const {
  return std::atomic_ref(unusable_).load(std::memory_order_relaxed) != 0;
}

bool Segment::NoteUnusable() const {
  std::atomic_ref(unusable_).store(1, std::memory_order_relaxed);
  return false;
}

void Segment::FindEnd() {
  end_ = RoundedUp(sizeof(Header) + (slot_mask_ + 1) * sizeof(Slot));
  for (uint64_t i = 0; i <= slot_mask_; ++i) {
    const Slot& taken = slot(i);
    if (taken.state != kTaken) continue;
    ++values_;
    const uint64_t end = RoundedUp(uint64_t{taken.place} * kValueAlignment + taken.bytes);
    if (end <= map_.size()) end_ = std::max(end_, end);
  }
}

void Segment::Touched(uint64_t bytes) const {
  const std::atomic_ref touched(touched_);
  const uint64_t now =
      touched.fetch_add(bytes + kTouchedAround, std::memory_order_relaxed) + bytes + kTouchedAround;
  if (now < kMostTouched) return;
  touched.store(0, std::memory_order_relaxed);
  map_.Forget(0, map_.size());
}

bool Segment::Find(const StoreKey& key, std::string& value) const {
  if (is_unusable()) return false;
  bool found = false;
  const bool readable = ReadGuarded([&] { found = FindMapped(key, value); });
  return readable ? found : NoteUnusable();
}

bool Segment::Add(const StoreKey& key, absl::string_view value) {
  if (is_unusable()) return false;
  bool added = false;
  const bool writable = ReadGuarded([&] { added = AddMapped(key, value); });
  return writable ? added : NoteUnusable();
}

template <typename Use>
bool Segment::ForEachValue(const StoreKey& key, const Use& use) const {
  const uint64_t hash = MixBits(key.words[0], key.words[1]);
  for (uint64_t i = 0; i <= slot_mask_; ++i) {
    Slot& found = slot(hash + i);
    if (std::atomic_ref(found.state).load(std::memory_order_acquire) != kTaken) return false;
    if (found.key != key) continue;
    // Copied, because another process may change them.
    const uint64_t place = uint64_t{found.place} * kValueAlignment;
    const uint64_t bytes = found.bytes;
    const uint32_t crc32c = found.crc32c;
    if (place > map_.size() || bytes > map_.size() - place) continue;
    if (use(absl::string_view(reinterpret_cast<const char*>(map_.data()) + place, bytes), crc32c)) {
      return true;
    }
  }
  return false;
}

bool Segment::FindMapped(const StoreKey& key, std::string& value) const {
  return ForEachValue(key, [&](absl::string_view mapped, uint32_t crc32c) {
    value.reserve(mapped.size());  // the copy may be aborted by a fault, so it must not allocate
    value.assign(mapped.data(), mapped.size());
    Touched(mapped.size());
    return Checksum(key, value) == crc32c;
  });
}

bool Segment::CopyHead(const StoreKey& key, uint64_t number, absl::string_view& mapped,
                       std::string& head) const {
  return ForEachValue(key, [&](absl::string_view value, uint32_t /*crc32c*/) {
    if (number-- > 0) return false;
    mapped = value;
    head.resize(std::min(head.size(), value.size()));
    std::memcpy(head.data(), value.data(), head.size());
    Touched(head.size());
    return true;
  });
}

bool Segment::FindPart(const StoreKey& key, size_t head_bytes, ChoosePart choose,
                       std::string& part) const {
  if (is_unusable()) return false;
  absl::string_view mapped;
  std::optional<ValuePart> chosen;
  // A damaged value may have been made anew.
  for (uint64_t number = 0; !chosen.has_value(); ++number) {
    bool found = false;
    part.resize(head_bytes);
    if (!ReadGuarded([&] { found = CopyHead(key, number, mapped, part); })) return NoteUnusable();
    if (!found) return false;
    chosen = choose(part);
  }
  if (chosen->begin > mapped.size() || chosen->bytes > mapped.size() - chosen->begin) return false;
  part.resize(chosen->bytes);
  const bool readable = ReadGuarded([&] {
    std::memcpy(part.data(), mapped.data() + chosen->begin, chosen->bytes);
    Touched(chosen->bytes);
  });
  return readable || NoteUnusable();
}

bool Segment::AddMapped(const StoreKey& key, absl::string_view value) {
  if (value.size() > map_.size() / 2) {
    // If the first value is too large, others will be too; the next segment is larger.
    if (values_ == 0 && map_.size() < kLargeBytes) NoteFull();
    return false;
  }
  const bool has_room = 8 * (values_ + 1) <= kMostEighths * (slot_mask_ + 1) &&
                        end_ <= map_.size() && value.size() <= map_.size() - end_;
  const uint64_t hash = MixBits(key.words[0], key.words[1]);
  for (uint64_t i = 0; has_room && i <= slot_mask_; ++i) {
    Slot& free = slot(hash + i);
    if (free.state != kFree) continue;
    std::memcpy(map_.data() + end_, value.data(), value.size());
    Touched(value.size());
    free.key = key;
    free.place = static_cast<uint32_t>(end_ / kValueAlignment);
    free.bytes = static_cast<uint32_t>(value.size());
    free.crc32c = Checksum(key, value);
    std::atomic_ref(free.state).store(kTaken, std::memory_order_release);
    ++values_;
    end_ = RoundedUp(end_ + value.size());
    return true;
  }
  NoteFull();
  return false;
}

void Segment::NoteFull() { std::atomic_ref(header().full).store(1, std::memory_order_relaxed); }

}  // namespace bulkhead
