#include "server/blocks/object_table.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/read_fault.h"
#include "server/blocks/object_blocks.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {
namespace {

constexpr size_t kBufferBytes = 256 << 10;
// A name and an ETag of more bytes are damaged: a key has 1,024, a URL some thousands.
constexpr uint64_t kMostNameBytes = uint64_t{1} << 20;

// In the byte order of this host, whose processes alone share the files.
struct TableHeader {
  char magic[8] = {'B', 'H', 'T', 'A', 'B', 'L', 'E', '1'};
  uint64_t count = 0;
  uint64_t slots = 0;
  uint64_t data_bytes = 0;
  uint64_t base_bytes = 0;
  uint32_t base_crc = 0;
  uint32_t crc = 0;  // of what is before it
};
static_assert(sizeof(TableHeader) == 48);

struct TableSlot {
  uint64_t start = 0;
  uint64_t place = 0;
  uint32_t crc = 0;
  uint32_t unused = 0;
};
static_assert(sizeof(TableSlot) == 24);

// The fixed part of an entry.
struct EntryHead {
  uint64_t size_bytes = 0;
  int64_t mtime_ns = 0;
  uint32_t name_bytes = 0;
  uint32_t etag_bytes = 0;
};
static_assert(sizeof(EntryHead) == 24);

template <typename T>
absl::string_view RawBytes(const T& value) {
  return absl::string_view(reinterpret_cast<const char*>(&value), sizeof(value));
}

uint32_t HeaderCrc(const TableHeader& header) {
  return Crc32c(RawBytes(header).substr(0, sizeof(header) - sizeof(header.crc)));
}

// Also tells one entry from another.
uint32_t SlotCrc(uint64_t number, uint64_t place, absl::string_view entry) {
  const uint64_t about[2] = {number, place};
  return Crc32c(entry, Crc32c(RawBytes(about)));
}

absl::Status TableDamaged() { return absl::DataLossError("the table of objects is damaged"); }

// Copies what is mapped; false if it cannot be read.
bool Copy(const char* from, size_t size, void* to) {
  return ReadGuarded([=] { std::memcpy(to, from, size); });
}

EntryHead HeadAt(const char* entry) {
  EntryHead head;
  std::memcpy(&head, entry, sizeof(head));
  return head;
}

// Of an entry of this process's own.
absl::string_view NameAt(const char* entry) {
  return absl::string_view(entry + sizeof(EntryHead), HeadAt(entry).name_bytes);
}

// Copies an entry, of which `limit` bytes are in the file, to `entry`; false if it is damaged.
bool CopyEntry(const char* from, uint64_t limit, std::string& entry) {
  EntryHead head;
  if (limit < sizeof(head) || !Copy(from, sizeof(head), &head)) return false;
  const uint64_t names = uint64_t{head.name_bytes} + head.etag_bytes;
  if (names > std::min(limit - sizeof(head), kMostNameBytes)) return false;
  entry.resize(sizeof(head) + names);
  return Copy(from, entry.size(), entry.data()) &&
         std::memcmp(entry.data(), &head, sizeof(head)) == 0;
}

bool IsWhole(const std::string& path) {
  const auto table = ObjectTable::Open(path);
  for (uint64_t i = 0; table.ok() && i < (*table)->count(); ++i) {
    if (!(*table)->Get(i).ok()) return false;
  }
  return table.ok();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ObjectTable>> ObjectTable::Open(const std::string& path) {
  BULKHEAD_ASSIGN_OR_RETURN(const UniqueFd fd, OpenFile(path + ".table", /*writable=*/false));
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t size, FileSize(fd.get()));
  TableHeader header;
  if (size < sizeof(header)) return TableDamaged();
  auto map = MemoryMap::Map(fd.get(), size, MemoryMap::Access::kRead);
  if (!map.ok()) return absl::DataLossError(map.status().message());
  std::shared_ptr<ObjectTable> table(new ObjectTable(*std::move(map)));
  const char* const file = reinterpret_cast<const char*>(table->map_.data());
  if (!Copy(file, sizeof(header), &header) ||
      std::memcmp(header.magic, TableHeader().magic, sizeof(header.magic)) != 0 ||
      header.crc != HeaderCrc(header) || header.count > kMostObjects || header.slots > size ||
      header.count * sizeof(TableSlot) != size - header.slots ||
      header.base_bytes > header.slots - sizeof(header)) {
    return TableDamaged();
  }
  table->base_.resize(std::min(header.base_bytes, kMostNameBytes));
  if (!Copy(file + sizeof(header), table->base_.size(), table->base_.data()) ||
      Crc32c(table->base_) != header.base_crc) {
    return TableDamaged();
  }
  table->count_ = header.count;
  table->slots_ = header.slots;
  table->data_bytes_ = header.data_bytes;
  return table;
}

absl::StatusOr<ObjectTable::Entry> ObjectTable::Get(uint64_t number) const {
  if (number >= count_) return TableDamaged();
  const char* const file = reinterpret_cast<const char*>(map_.data());
  TableSlot slot;
  std::string bytes;
  if (!Copy(file + slots_ + number * sizeof(slot), sizeof(slot), &slot) || slot.start > slots_ ||
      !CopyEntry(file + slot.start, slots_ - slot.start, bytes) ||
      slot.crc != SlotCrc(number, slot.place, bytes)) {
    return TableDamaged();
  }
  const EntryHead head = HeadAt(bytes.data());
  const absl::string_view name = NameAt(bytes.data());
  return Entry{std::string(name), bytes.substr(sizeof(head) + name.size()), head.size_bytes,
               head.mtime_ns, slot.place};
}

absl::StatusOr<uint64_t> ObjectTable::Find(absl::string_view name) const {
  uint64_t begin = 0;
  for (uint64_t end = count_; begin < end;) {
    const uint64_t middle = begin + (end - begin) / 2;
    BULKHEAD_ASSIGN_OR_RETURN(const Entry entry, Get(middle));
    if (entry.name == name) return middle;
    if (entry.name < name) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return absl::NotFoundError("there is no such object in the table");
}

std::string ObjectTable::UrlOf(const Entry& entry) const { return absl::StrCat(base_, entry.name); }

std::string ObjectTable::KeyOf(const Entry& entry) const {
  return ObjectBlocks::KeyOf(UrlOf(entry), entry.etag, {entry.size_bytes, entry.mtime_ns});
}

absl::StatusOr<ObjectTableWriter> ObjectTableWriter::Create(std::string folder, std::string base) {
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd fd, CreateUnnamedFile(folder));
  ObjectTableWriter writer(std::move(folder), std::move(base), std::move(fd));
  BULKHEAD_RETURN_IF_ERROR(writer.Append(std::string(sizeof(TableHeader), '\0')));
  BULKHEAD_RETURN_IF_ERROR(writer.Append(writer.base_));
  return writer;
}

absl::Status ObjectTableWriter::Append(absl::string_view bytes) {
  buffer_.append(bytes.data(), bytes.size());
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
}

absl::Status ObjectTableWriter::Flush() {
  BULKHEAD_RETURN_IF_ERROR(WriteExactly(fd_.get(), written_, buffer_));
  written_ += buffer_.size();
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status ObjectTableWriter::Add(const ObjectTable::Entry& entry) {
  if (starts_.size() == ObjectTable::kMostObjects) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are more than ", ObjectTable::kMostObjects, " objects"));
  }
  starts_.push_back(written_ + buffer_.size());
  const EntryHead head{entry.size_bytes, entry.mtime_ns, static_cast<uint32_t>(entry.name.size()),
                       static_cast<uint32_t>(entry.etag.size())};
  BULKHEAD_RETURN_IF_ERROR(Append(RawBytes(head)));
  BULKHEAD_RETURN_IF_ERROR(Append(entry.name));
  return Append(entry.etag);
}

bool ObjectTableWriter::Sort(const char* file) {
  const auto less = [&](uint64_t a, uint64_t b) { return NameAt(file + a) < NameAt(file + b); };
  const auto same = [&](uint64_t a, uint64_t b) { return NameAt(file + a) == NameAt(file + b); };
  size_t count = 0;
  const bool is_read = ReadGuarded([&] {
    if (!std::is_sorted(starts_.begin(), starts_.end(), less)) {
      std::sort(starts_.begin(), starts_.end(), less);
    }
    count =
        static_cast<size_t>(std::unique(starts_.begin(), starts_.end(), same) - starts_.begin());
  });
  starts_.resize(is_read ? count : 0);
  return is_read;
}

absl::StatusOr<std::string> ObjectTableWriter::Finish() {
  BULKHEAD_RETURN_IF_ERROR(Flush());
  BULKHEAD_ASSIGN_OR_RETURN(const MemoryMap map,
                            MemoryMap::Map(fd_.get(), written_, MemoryMap::Access::kRead));
  const char* const file = reinterpret_cast<const char*>(map.data());
  if (!Sort(file)) return TableDamaged();
  TableHeader header;
  header.count = starts_.size();
  header.slots = written_;
  header.base_bytes = base_.size();
  header.base_crc = Crc32c(base_);
  Sha256 key;
  key.Update(absl::StrCat("bulkhead table 1\n", base_, "\n"));
  std::string entry;
  for (uint64_t i = 0; i < starts_.size(); ++i) {
    if (!CopyEntry(file + starts_[i], header.slots - starts_[i], entry)) return TableDamaged();
    const TableSlot slot{starts_[i], header.data_bytes, SlotCrc(i, header.data_bytes, entry), 0};
    BULKHEAD_RETURN_IF_ERROR(Append(RawBytes(slot)));
    constexpr uint64_t kPlace = ObjectTable::kPlaceBytes;
    const uint64_t size = HeadAt(entry.data()).size_bytes;
    if (size > ObjectBlocks::kMostBytes - std::min(header.data_bytes, ObjectBlocks::kMostBytes)) {
      return absl::ResourceExhaustedError("the objects have more than 16 TiB together");
    }
    header.data_bytes += (size + kPlace - 1) / kPlace * kPlace;
    key.Update(entry);
  }
  BULKHEAD_RETURN_IF_ERROR(Flush());
  header.crc = HeaderCrc(header);
  BULKHEAD_RETURN_IF_ERROR(WriteExactly(fd_.get(), 0, RawBytes(header)));
  std::string name = key.FinishHex().substr(0, 32);
  const std::string path = absl::StrCat(folder_, "/", name);
  if (!IsWhole(path)) BULKHEAD_RETURN_IF_ERROR(PublishFile(fd_.get(), path + ".table"));
  return name;
}

}  // namespace bulkhead
