#include "server/fetch/block_fetcher.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/fetch/wanted_blocks.h"
#include "server/objects/store_error.h"

namespace bulkhead {
namespace {

// A block of more bytes is written in parts.
constexpr size_t kPartBytes = 256 << 10;

// Of a table that a stream has. An opening lists its objects anew.
absl::Status TableGone(const std::string& path, const absl::Status& why) {
  return MakeError(
      absl::StatusCode::kDataLoss, reason::kIndexDamaged,
      absl::StrCat("the table of objects ", path, " is gone or damaged (", why.message(),
                   "); it is made again when the stream is opened again"),
      {{"file", path}});
}

}  // namespace

absl::Status CannotKeep(absl::string_view url, const absl::Status& why) {
  const absl::string_view cure =
      absl::IsResourceExhausted(why)
          ? "; give the cache folder more disk, or less of it to --block-cache-bytes"
          : "; if the cache folder was removed, open the stream again";
  return Unreadable(why.code(), ShownUrl(url),
                    absl::StrCat("its bytes cannot be kept on this host: ", why.message(), cure));
}

// An object, or a table of objects, that requests have named.
struct BlockFetcher::Object {
  // Those of a table are blocks.
  bool is_table() const { return cached->object().table != nullptr; }
  // What has this block.
  absl::StatusOr<ObjectInfo> InfoOf(uint64_t block) const {
    if (!is_table()) return info;
    const ObjectTable& table = *cached->object().table;
    BULKHEAD_ASSIGN_OR_RETURN(const ObjectTable::Entry entry, table.Get(block));
    return ObjectInfo{table.UrlOf(entry), entry.size_bytes, std::string(entry.etag),
                      entry.mtime_ns};
  }
  // The URL of the object or of the table's folder; empty: that of a list.
  std::string url() const {
    return is_table() ? std::string(cached->object().table->base()) : info.url;
  }

  std::string key;
  bool is_in_use = true;  // false: it is destroyed once no request wants it
  ObjectInfo info;        // unless it is a table
  ObjectBlocks* cached = nullptr;
  std::optional<ObjectBlocks> spare;  // open while a request wants the object
  WantedBlocks wanted;
  std::map<uint64_t, std::shared_ptr<Read>> reads;  // on their way, by first block
};

// A part of an object on its way.
struct BlockFetcher::Read {
  Object* object = nullptr;
  uint64_t begin = 0;  // blocks
  uint64_t end = 0;
  bool to_cache = false;
  ObjectInfo info;
  uint64_t next_byte = 0;   // of the object that is read
  uint64_t reserved = 0;    // bytes of the cache
  uint64_t next = 0;        // the block that has begun
  ObjectBlocks::Part part;  // what was written of it
  std::string block;        // the bytes of it that follow
  std::vector<std::weak_ptr<Request>> waiting;
};

struct BlockFetcher::Request {
  uint64_t id = 0;
  // Blocks of objects.
  struct Run {
    Object* object = nullptr;
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  std::vector<Run> runs;
  Trust trust = internal::v1::FetchParts::TRUST_UNSPECIFIED;
  // What was not looked at yet: the run `next_run` from `next` on, and those behind it.
  size_t next_run = 0;
  uint64_t next = 0;
  size_t reads_left = 0;
  bool done = false;
};

BlockFetcher::BlockFetcher(ObjectStore& store, ObjectFolder& cache, std::string spare_folder,
                           Done done)
    : store_(store),
      cache_(cache),
      spare_folder_(std::move(spare_folder)),
      done_(std::move(done)) {}

BlockFetcher::~BlockFetcher() { *alive_ = false; }

absl::StatusOr<BlockFetcher::Object*> BlockFetcher::Find(const internal::v1::FetchParts::Part& part,
                                                         Trust trust) {
  const internal::v1::FoundObject& found = part.object();
  const std::string& key = part.has_table() ? part.table().key() : found.object().key();
  const std::string spare_path = absl::StrCat(spare_folder_, "/", key);
  const auto known = objects_.find(key);
  if (known != objects_.end()) known->second->is_in_use = true;
  const bool is_open = known != objects_.end() && known->second->spare.has_value();
  if (is_open && trust == internal::v1::FetchParts::TRUST_UNSPECIFIED) return known->second.get();
  ObjectBlocks::Object state{found.size_bytes(), found.mtime_ns()};
  if (part.has_table() && known != objects_.end()) {
    state = known->second->cached->object();
  } else if (part.has_table()) {
    auto table = ObjectTable::Open(part.table().path());
    if (!table.ok()) return TableGone(part.table().path(), table.status());
    state.table = *std::move(table);
  }
  BULKHEAD_ASSIGN_OR_RETURN(ObjectBlocks* const cached, cache_.Open(key, state));
  if (is_open && known->second->spare->IsAt(spare_path)) return known->second.get();
  BULKHEAD_ASSIGN_OR_RETURN(ObjectBlocks spare, ObjectBlocks::OpenForWriting(spare_path, state));
  std::unique_ptr<Object>& object = objects_[key];
  if (object == nullptr) object = std::make_unique<Object>();
  object->key = key;
  object->info = {found.object().url(), found.size_bytes(), found.object().etag(),
                  found.mtime_ns()};
  object->cached = cached;
  object->spare = std::move(spare);
  return object.get();
}

bool BlockFetcher::IsThere(const Object& object, uint64_t block, Trust trust) {
  const auto has = [&](const ObjectBlocks& blocks) {
    return trust == internal::v1::FetchParts::TRUST_UNSPECIFIED ? blocks.Has(block)
                                                                : blocks.IsRight(block);
  };
  return has(*object.cached) || has(*object.spare);
}

void BlockFetcher::Fetch(const internal::v1::FetchParts& message) {
  if (requests_.count(message.id()) > 0) return;
  auto request = std::make_shared<Request>();
  request->id = message.id();
  request->trust = message.trust();
  requests_[message.id()] = request;
  for (const internal::v1::FetchParts::Part& part : message.parts()) {
    const auto object = Find(part, message.trust());
    if (!object.ok()) {
      if (GetErrorInfo(object.status()).has_value()) return Finish(*request, object.status());
      const std::string& what =
          part.has_table() ? part.table().path() : part.object().object().url();
      return Finish(*request, CannotKeep(what, object.status()));
    }
    // A table's bounds are of blocks.
    const uint64_t unit = (*object)->is_table() ? 1 : ObjectBlocks::kBlockBytes;
    const uint64_t count = (*object)->cached->block_count();
    for (int i = 0; i + 1 < part.bounds_size(); i += 2) {
      const uint64_t end = part.bounds(i + 1) / unit + (part.bounds(i + 1) % unit > 0 ? 1 : 0);
      const Request::Run run{*object, part.bounds(i) / unit, std::min(end, count)};
      if (part.bounds(i) >= part.bounds(i + 1) || run.begin >= run.end) continue;
      request->runs.push_back(run);
      (*object)->wanted.Add(run.begin, run.end);
      if (message.trust() == internal::v1::FetchParts::TRUST_NOTHING) {
        Forget(**object, run.begin, run.end);
      }
    }
  }
  Advance(request);
}

void BlockFetcher::Advance(const std::shared_ptr<Request>& request) {
  while (!request->done && request->reads_left < kMostReads) {
    if (request->next_run == request->runs.size()) {
      if (request->reads_left == 0) Finish(*request, absl::OkStatus());
      return;
    }
    const Request::Run& run = request->runs[request->next_run];
    const uint64_t begin = std::max(run.begin, request->next);
    if (begin >= run.end) {
      ++request->next_run;
      request->next = 0;
      continue;
    }
    if (IsThere(*run.object, begin, request->trust)) {
      request->next = begin + 1;
      continue;
    }
    // Missing blocks, with small gaps between them.
    const uint64_t gap_blocks = run.object->is_table() ? 0 : kGapBytes / ObjectBlocks::kBlockBytes;
    const uint64_t most = std::min(run.end, begin + kReadBytes / ObjectBlocks::kBlockBytes);
    uint64_t end = begin + 1;
    for (uint64_t block = end; block < most && block <= end + gap_blocks && gap_blocks > 0;
         ++block) {
      if (!IsThere(*run.object, block, request->trust)) end = block + 1;
    }
    request->next = Want(*run.object, begin, end, request);
  }
}

uint64_t BlockFetcher::Want(Object& object, uint64_t begin, uint64_t end,
                            const std::shared_ptr<Request>& request) {
  // The read that has `begin`, or the first one behind it.
  auto read = object.reads.upper_bound(begin);
  if (read != object.reads.begin() && std::prev(read)->second->end > begin) --read;
  if (read != object.reads.end() && read->second->begin <= begin) {
    read->second->waiting.push_back(request);
    ++request->reads_left;
    return read->second->end;
  }
  const uint64_t until = read == object.reads.end() ? end : std::min(end, read->second->begin);
  Begin(object, begin, until, request);
  return until;
}

void BlockFetcher::Begin(Object& object, uint64_t begin, uint64_t end,
                         const std::shared_ptr<Request>& request) {
  absl::StatusOr<ObjectInfo> info = object.InfoOf(begin);
  if (info.ok() && info->size_bytes == 0) return;  // of an empty object nothing is read
  if (!info.ok()) return Finish(*request, CannotKeep(object.url(), info.status()));
  auto read = std::make_shared<Read>();
  read->object = &object;
  read->begin = read->next = begin;
  read->end = end;
  read->info = *std::move(info);
  read->next_byte = object.is_table() ? 0 : begin * ObjectBlocks::kBlockBytes;
  const uint64_t end_byte = object.is_table()
                                ? read->info.size_bytes
                                : std::min(end * ObjectBlocks::kBlockBytes, read->info.size_bytes);
  const uint64_t disk_bytes =
      object.is_table() ? object.cached->DiskBytesOf(begin) : end_byte - read->next_byte;
  read->to_cache = cache_.Reserve(disk_bytes);
  if (read->to_cache) read->reserved = disk_bytes;
  read->waiting.push_back(request);
  ++request->reads_left;
  object.reads[begin] = read;
  store_.Read(
      read->info, read->next_byte, end_byte,
      [this, read, alive = alive_](uint64_t offset, absl::string_view bytes) {
        return *alive ? Take(*read, offset, bytes) : absl::CancelledError("the fetcher ends");
      },
      [this, read, alive = alive_](const absl::Status& status) {
        if (*alive) End(*read, status);
      });
}

absl::Status BlockFetcher::Take(Read& read, uint64_t offset, absl::string_view bytes) {
  if (offset != read.next_byte) {
    return absl::InternalError("the store's bytes came out of order");
  }
  read.next_byte += bytes.size();
  Object& object = *read.object;
  ObjectBlocks& blocks = read.to_cache ? *object.cached : *object.spare;
  while (!bytes.empty() && read.next < read.end) {
    const uint64_t left = blocks.BytesOf(read.next) - read.part.bytes - read.block.size();
    const size_t count = std::min<uint64_t>(left, bytes.size());
    read.block.append(bytes.data(), count);
    bytes.remove_prefix(count);
    const bool is_whole = count == left;
    if (!is_whole && read.block.size() < kPartBytes) break;
    const bool was_there = blocks.Has(read.next);
    const absl::Status written = blocks.WritePart(read.next, read.part, read.block);
    if (!written.ok()) return CannotKeep(read.info.url, written);
    read.block.clear();
    if (is_whole) EndBlock(read, was_there);
  }
  return absl::OkStatus();
}

void BlockFetcher::EndBlock(Read& read, bool was_there) {
  const uint64_t bytes = read.object->cached->DiskBytesOf(read.next);
  const uint64_t added = was_there ? 0 : bytes;
  if (read.to_cache) {
    cache_.Unreserve(bytes, added);
    read.reserved -= bytes;
  } else {
    spare_bytes_ += added;
  }
  read.part = {};
  ++read.next;
}

void BlockFetcher::End(Read& read, const absl::Status& status) {
  Object& object = *read.object;
  const auto found = object.reads.find(read.begin);
  const std::shared_ptr<Read> holds = found->second;
  object.reads.erase(found);
  cache_.Unreserve(read.reserved, 0);
  // A part of a block takes disk.
  if (read.part.bytes > 0 && !read.to_cache) object.spare->Drop(read.next, read.next + 1);
  absl::Status ended = status;
  if (ended.ok() && read.next < read.end)
    ended = absl::InternalError("the store's bytes are short");
  for (const std::weak_ptr<Request>& weak : read.waiting) {
    const std::shared_ptr<Request> request = weak.lock();
    if (request == nullptr) continue;  // released
    --request->reads_left;
    if (!ended.ok()) Finish(*request, ended);
    Advance(request);
  }
  Drop(object, read.begin, read.end);
  CloseIfIdle(object);
}

void BlockFetcher::Finish(Request& request, const absl::Status& status) {
  if (std::exchange(request.done, true)) return;
  done_(request.id, status);
}

void BlockFetcher::Release(uint64_t id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  const std::shared_ptr<Request> request = std::move(found->second);
  requests_.erase(found);
  std::set<Object*> objects;
  for (const Request::Run& run : request->runs) {
    run.object->wanted.Remove(run.begin, run.end);
    Drop(*run.object, run.begin, run.end);
    objects.insert(run.object);
  }
  for (Object* const object : objects) CloseIfIdle(*object);
}

void BlockFetcher::Close(const std::string& key) {
  const auto found = objects_.find(key);
  if (found == objects_.end()) return cache_.Close(key);
  found->second->is_in_use = false;
  CloseIfIdle(*found->second);
}

void BlockFetcher::CloseIfIdle(Object& object) {
  if (!object.wanted.empty() || !object.reads.empty()) return;
  object.spare.reset();
  if (object.is_in_use) return;
  const std::string key = object.key;
  objects_.erase(key);
  cache_.Close(key);
}

void BlockFetcher::Uncount(const ObjectBlocks& spare, uint64_t block) {
  spare_bytes_ -= std::min(spare_bytes_, spare.DiskBytesOf(block));
}

void BlockFetcher::Drop(Object& object, uint64_t begin, uint64_t end) {
  if (!object.spare.has_value()) return;
  uint64_t first = begin;  // of those to drop
  for (uint64_t block = begin; block <= end; ++block) {
    const bool drops = block < end && object.spare->Has(block) && !object.wanted.Has(block);
    if (drops) {
      Uncount(*object.spare, block);
      continue;
    }
    object.spare->Drop(first, block);
    first = block + 1;
  }
}

void BlockFetcher::Forget(Object& object, uint64_t begin, uint64_t end) {
  for (uint64_t block = begin; block < end; ++block) {
    if (object.spare->Has(block)) Uncount(*object.spare, block);
  }
  object.spare->Drop(begin, end);
  object.cached->Drop(begin, end);  // counted until the folder is measured again
}

void BlockFetcher::ForgetRest() {
  for (const auto& [key, object] : objects_) {
    if (object->spare.has_value()) Drop(*object, 0, object->spare->block_count());
  }
}

}  // namespace bulkhead
