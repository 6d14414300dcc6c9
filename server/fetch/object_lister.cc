#include "server/fetch/object_lister.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/index_header.h"
#include "server/base/paths/object_url.h"
#include "server/base/read_fault.h"
#include "server/blocks/object_table.h"
#include "server/fetch/block_fetcher.h"
#include "server/objects/store_error.h"
#include "server/os/files/filesystem.h"
#include "server/os/memory/memory_map.h"

namespace bulkhead {
namespace {

// Listings of one task at a time, and questions for single objects.
constexpr size_t kListings = 32;
constexpr size_t kQuestions = 64;
// Folders that wait for their listing; the first level goes on when there are fewer.
constexpr size_t kMostWaiting = 2000;
// Of so many URLs in one folder a listing costs less than a question for each.
constexpr size_t kFewUrls = 8;
// So many URLs of one folder are looked for by one listing after another.
constexpr size_t kManyUrls = 5000;
// Starts of URLs are kept as numbers of 32 bits.
constexpr uint64_t kMostUrlBytes = uint64_t{4} << 30;
constexpr size_t kMostBytesOfUrl = size_t{1} << 20;
// Empty pages of one folder that are not the last: a store that gives more would go on for ever.
constexpr size_t kMostEmptyPages = 1000;

ObjectTable::Entry EntryOf(absl::string_view name, const ListedObject& object) {
  return {std::string(name), object.etag, object.size_bytes, object.mtime_ns, 0};
}

// A key that is less than `key`, with few keys between them.
std::string JustBefore(absl::string_view key) {
  std::string before(key);
  const auto last = static_cast<unsigned char>(before.back());
  if (last > ' ' && last < 0x80) {
    before.back() = static_cast<char>(last - 1);
    return before + "~~~~";
  }
  // A whole character.
  while (before.size() > 1 && (static_cast<unsigned char>(before.back()) & 0xC0) == 0x80) {
    before.pop_back();
  }
  before.pop_back();
  return before;
}

absl::Status TooMany(absl::string_view folder) {
  return MakeError(absl::StatusCode::kResourceExhausted, reason::kSpecInvalid,
                   absl::StrCat(folder.empty() ? "the list" : ShownUrl(folder), ": has more than ",
                                ObjectTable::kMostObjects,
                                " objects, or 4 GiB of URLs; read parts of it as sources of a "
                                "mixture, or pack the images as shards (bulkhead pack)"));
}

// The key of an object of a bucket, or of a folder.
absl::string_view KeyOf(absl::string_view url) {
  return url.substr(url.find('/', url.find("//") + 2) + 1);
}

}  // namespace

class ObjectLister::Task : public std::enable_shared_from_this<Task> {
 public:
  Task(ObjectLister& lister, uint64_t id, std::string base)
      : lister_(lister), id_(id), base_(std::move(base)) {}
  virtual ~Task() = default;

  void Start() {
    absl::StatusOr<ObjectTableWriter> writer = ObjectTableWriter::Create(lister_.folder_, base_);
    if (!writer.ok()) return Finish(CannotKeep(base_, writer.status()));
    writer_.emplace(*std::move(writer));
    if (absl::Status begun = Begin(); !begun.ok()) return Finish(begun);
    GoOn();
  }
  void Report() const { lister_.progress_(id_, writer_.has_value() ? writer_->count() : 0); }
  // Answers to it are ignored from now on.
  void Drop() { is_done_ = true; }

 protected:
  virtual absl::Status Begin() { return absl::OkStatus(); }
  // Asks for what can be asked now; false if there is nothing left to ask for.
  virtual absl::StatusOr<bool> Ask() = 0;
  // What is said if the table is empty.
  virtual absl::Status Empty() const { return absl::OkStatus(); }

  ObjectStore& store() const { return lister_.store_; }
  size_t running() const { return running_; }
  const std::string& base() const { return base_; }

  // Calls `take` with a listing's page, unless this has ended.
  void List(const ListQuery& query, std::function<absl::Status(absl::StatusOr<Listing>)> take) {
    ++running_;
    store().List(query, [this, self = shared_from_this(),
                         take = std::move(take)](absl::StatusOr<Listing> page) {
      if (is_done_) return;
      --running_;
      Went(take(std::move(page)));
    });
  }

  // Adds the object, if it exists.
  void Question(const std::string& url) {
    ++running_;
    // Of a bucket's key with wildcards, which are meant as they are.
    const auto parsed = ParseObjectUrl(url);
    const bool escapes =
        parsed.ok() && parsed->is_bucket() && parsed->key.find_first_of("*?[") != url.npos;
    store().Find(escapes ? EscapedUrl(url) : url, 1,
                 [this, self = shared_from_this(),
                  url](const absl::StatusOr<std::vector<ObjectInfo>>& found) {
                   if (is_done_) return;
                   --running_;
                   absl::Status status = found.status();
                   if (absl::IsNotFound(status)) status = absl::OkStatus();
                   for (size_t i = 0; found.ok() && i < found->size(); ++i) {
                     const ObjectInfo& info = (*found)[i];
                     status = Add({url, info.etag, info.size_bytes, info.mtime_ns, 0});
                   }
                   Went(status);
                 });
  }

  absl::Status Add(const ObjectTable::Entry& entry) {
    if (writer_->count() == ObjectTable::kMostObjects) return TooMany(base_);
    const absl::Status added = writer_->Add(entry);
    return added.ok() ? added : CannotKeep(absl::StrCat(base_, entry.name), added);
  }

 private:
  void Went(const absl::Status& status) {
    if (!status.ok()) return Finish(status);
    GoOn();
  }

  void GoOn() {
    const absl::StatusOr<bool> is_more = Ask();
    if (!is_more.ok()) return Finish(is_more.status());
    if (*is_more || running_ > 0) return;
    if (writer_->count() == 0) {
      if (const absl::Status empty = Empty(); !empty.ok()) return Finish(empty);
    }
    absl::StatusOr<std::string> key = writer_->Finish();
    if (!key.ok()) return Finish(CannotKeep(base_, key.status()));
    Finish(std::move(key));
  }

  void Finish(absl::StatusOr<std::string> key) {
    if (std::exchange(is_done_, true)) return;
    const std::shared_ptr<Task> self = shared_from_this();
    lister_.tasks_.erase(id_);
    lister_.done_(id_, std::move(key), writer_.has_value() ? writer_->count() : 0);
  }

  ObjectLister& lister_;
  const uint64_t id_;
  const std::string base_;
  std::optional<ObjectTableWriter> writer_;
  size_t running_ = 0;
  bool is_done_ = false;
};

// All objects below a folder.
class ObjectLister::FolderTask final : public Task {
 public:
  FolderTask(ObjectLister& lister, uint64_t id, const std::string& folder)
      : Task(lister, id, folder) {}

 private:
  absl::StatusOr<bool> Ask() override {
    if (first_level_left_ && !first_level_runs_ && waiting_.size() < kMostWaiting) {
      first_level_runs_ = true;
      List({base(), /*one_level=*/true, "", first_level_token_},
           [this](absl::StatusOr<Listing> page) { return TakeFirstLevel(std::move(page)); });
    }
    while (!waiting_.empty() && running() < kListings) {
      AskFor(std::move(waiting_.front()), "");
      waiting_.pop_front();
    }
    return first_level_left_ || !waiting_.empty();
  }

  absl::Status TakeFirstLevel(absl::StatusOr<Listing> page) {
    BULKHEAD_RETURN_IF_ERROR(page.status());
    first_level_runs_ = false;
    BULKHEAD_RETURN_IF_ERROR(CheckNext(*page, first_level_token_));
    first_level_token_ = page->next_token;
    first_level_left_ = !first_level_token_.empty();
    for (std::string& prefix : page->prefixes) {
      if (!absl::StartsWith(prefix, key_prefix())) return Strange();
      // What is hidden is no part of a data set.
      const bool is_hidden = absl::StartsWith(prefix.substr(key_prefix().size()), ".");
      if (!is_hidden) waiting_.push_back(std::move(prefix));
    }
    return Take(*page);
  }

  void AskFor(std::string prefix, const std::string& token) {
    ListQuery query{absl::StrCat(base(), prefix.substr(key_prefix().size())), false, "", token};
    List(query, [this, prefix = std::move(prefix), token](absl::StatusOr<Listing> page) {
      BULKHEAD_RETURN_IF_ERROR(page.status());
      BULKHEAD_RETURN_IF_ERROR(CheckNext(*page, token));
      if (!page->next_token.empty()) AskFor(prefix, page->next_token);
      return Take(*page);
    });
  }

  // That the pages have an end. Of those with objects, a table has room for so many only.
  absl::Status CheckNext(const Listing& page, const std::string& token) {
    if (page.objects.empty() && page.prefixes.empty()) ++empty_pages_;
    const bool repeats = !page.next_token.empty() && page.next_token == token;
    if (!repeats && empty_pages_ <= kMostEmptyPages) return absl::OkStatus();
    return Unreadable(absl::StatusCode::kUnavailable, ShownUrl(base()),
                      absl::StrCat("the store's listing has no end: it gives ",
                                   repeats ? "the same page again" : "one empty page after another",
                                   "; tell who runs the store, or write an image_list"));
  }

  absl::Status Take(const Listing& page) {
    for (const ListedObject& object : page.objects) {
      absl::string_view name = object.key;
      if (!absl::StartsWith(name, key_prefix())) return Strange();
      name.remove_prefix(key_prefix().size());
      if (name.empty()) continue;  // what some tools make for a folder
      BULKHEAD_RETURN_IF_ERROR(Add(EntryOf(name, object)));
    }
    return absl::OkStatus();
  }

  absl::Status Strange() const {
    return Unreadable(absl::StatusCode::kUnavailable, ShownUrl(base()),
                      "the store lists keys that were not asked for");
  }

  absl::Status Empty() const override {
    return MakeError(absl::StatusCode::kNotFound, reason::kFileNotFound,
                     absl::StrCat(ShownUrl(base()),
                                  ": there is no object whose name begins so; compare the URL"),
                     {{"file", ShownUrl(base())}});
  }

  // The folder in its bucket.
  absl::string_view key_prefix() const { return KeyOf(base()); }

  std::string first_level_token_;
  bool first_level_left_ = true;
  bool first_level_runs_ = false;
  size_t empty_pages_ = 0;
  std::deque<std::string> waiting_;  // prefixes
};

// The objects of a file of URLs.
class ObjectLister::UrlsTask final : public Task {
 public:
  UrlsTask(ObjectLister& lister, const internal::v1::ListObjects& message, int fd)
      : Task(lister, message.id(), ""),
        roots_(message.roots().begin(), message.roots().end()),
        fd_(fd) {}

 private:
  // URLs [begin, end), in order, of which those before `next` were looked for. Each is in the
  // folder `folder`.
  struct Walk {
    std::string folder;
    size_t next = 0;
    size_t end = 0;
  };

  absl::Status Begin() override {
    BULKHEAD_ASSIGN_OR_RETURN(const std::string prefix, ReadPrefix(fd_, IndexHeader::kBytes));
    BULKHEAD_ASSIGN_OR_RETURN(const IndexHeader header, IndexHeader::Parse(prefix));
    BULKHEAD_ASSIGN_OR_RETURN(const uint64_t size, FileSize(fd_));
    if (size > kMostUrlBytes || header.record_count > ObjectTable::kMostObjects) return TooMany("");
    BULKHEAD_ASSIGN_OR_RETURN(file_, MemoryMap::Map(fd_, size, MemoryMap::Access::kRead));
    starts_.resize(header.record_count);
    size_t count = 0;
    if (!ReadGuarded([&] { count = SortUrls(); }) || (count == 0 && !starts_.empty())) {
      return Damaged();
    }
    starts_.resize(count);
    for (size_t i = 0; i < starts_.size(); ++i) BULKHEAD_RETURN_IF_ERROR(UrlAt(i).status());
    return absl::OkStatus();
  }

  // Fills in `starts_`, sorted by URL, and returns how many URLs there are; 0 if the file is
  // damaged. Allocates nothing.
  size_t SortUrls() {
    const absl::string_view text(reinterpret_cast<const char*>(file_.data()), file_.size());
    uint64_t start = IndexHeader::kBytes;
    for (uint32_t& url : starts_) {
      const size_t end = text.find('\n', start);
      if (end == text.npos) return 0;
      url = static_cast<uint32_t>(start);
      start = end + 1;
    }
    const auto less = [&](uint32_t a, uint32_t b) { return UrlFrom(a) < UrlFrom(b); };
    const auto same = [&](uint32_t a, uint32_t b) { return UrlFrom(a) == UrlFrom(b); };
    if (!std::is_sorted(starts_.begin(), starts_.end(), less)) {
      // Unlike std::sort these stay within `starts_` even if the file changes meanwhile.
      std::make_heap(starts_.begin(), starts_.end(), less);
      std::sort_heap(starts_.begin(), starts_.end(), less);
    }
    return static_cast<size_t>(std::unique(starts_.begin(), starts_.end(), same) - starts_.begin());
  }

  absl::StatusOr<bool> Ask() override {
    while (running() < kQuestions) {
      if (!single_.empty()) {
        BULKHEAD_ASSIGN_OR_RETURN(const std::string url, UrlAt(single_.front()));
        single_.pop_front();
        Question(url);
      } else if (next_ < starts_.size() && running() < kListings) {
        BULKHEAD_ASSIGN_OR_RETURN(Walk walk, NextWalk());
        BULKHEAD_RETURN_IF_ERROR(walk.folder.empty() ? AskForEach(walk) : Go(std::move(walk), ""));
      } else {
        break;
      }
    }
    return next_ < starts_.size() || !single_.empty();
  }

  // The URLs of one folder from `next_` on, as many as go together. Without a folder: each is
  // asked for.
  absl::StatusOr<Walk> NextWalk() {
    BULKHEAD_ASSIGN_OR_RETURN(const std::string first, UrlAt(next_));
    const std::string folder = first.substr(0, first.rfind('/') + 1);
    Walk walk{"", next_, next_};
    for (; walk.end < starts_.size() && walk.end - walk.next < kManyUrls; ++walk.end) {
      BULKHEAD_ASSIGN_OR_RETURN(const std::string url, UrlAt(walk.end));
      if (url.substr(0, url.rfind('/') + 1) != folder) break;
    }
    next_ = walk.end;
    const auto url = ParseObjectUrl(first);
    if (url.ok() && url->is_bucket() && walk.end - walk.next > kFewUrls) walk.folder = folder;
    return walk;
  }

  // Lists the keys behind `last`, or from the next key that is wanted.
  absl::Status Go(Walk walk, const std::string& last) {
    BULKHEAD_ASSIGN_OR_RETURN(const std::string key, KeyAt(walk.next));
    const ListQuery query{walk.folder, /*one_level=*/true, std::max(last, JustBefore(key)), ""};
    List(query, [this, walk = std::move(walk)](absl::StatusOr<Listing> page) mutable {
      return Take(std::move(walk), page);
    });
    return absl::OkStatus();
  }

  absl::Status Take(Walk walk, const absl::StatusOr<Listing>& page) {
    // Who may not list may perhaps read.
    if (absl::IsPermissionDenied(page.status())) return AskForEach(walk);
    BULKHEAD_RETURN_IF_ERROR(page.status());
    const size_t begin = walk.next;
    std::string last;
    for (const ListedObject& object : page->objects) {
      last = std::max(last, object.key);
      while (walk.next < walk.end) {
        BULKHEAD_ASSIGN_OR_RETURN(const std::string url, UrlAt(walk.next));
        const absl::string_view key = KeyOf(url);
        if (key > object.key) break;
        if (key == object.key) {
          BULKHEAD_RETURN_IF_ERROR(Add(EntryOf(url, object)));
        } else {
          single_.push_back(walk.next);
        }
        ++walk.next;
      }
    }
    // Behind the keys that a prefix stands for.
    for (const std::string& prefix : page->prefixes) last = std::max(last, prefix + "~~~~");
    if (page->next_token.empty() || last.empty()) return AskForEach(walk);
    // Perhaps the store's listing is in another order.
    for (; walk.next < walk.end; ++walk.next) {
      BULKHEAD_ASSIGN_OR_RETURN(const std::string key, KeyAt(walk.next));
      if (key > last) break;
      single_.push_back(walk.next);
    }
    if (walk.next == walk.end) return absl::OkStatus();
    // A page that brought none of them may come again, from a store that knows no start-after.
    if (walk.next == begin) return AskForEach(walk);
    return Go(std::move(walk), last);
  }

  // Those of the walk that are left.
  absl::Status AskForEach(const Walk& walk) {
    for (size_t i = walk.next; i < walk.end; ++i) single_.push_back(i);
    return absl::OkStatus();
  }

  static absl::Status Damaged() { return absl::DataLossError("the list of URLs is damaged"); }

  // In the file, which must be readable.
  absl::string_view UrlFrom(uint32_t start) const {
    const absl::string_view rest =
        absl::string_view(reinterpret_cast<const char*>(file_.data()), file_.size()).substr(start);
    return rest.substr(0, rest.find('\n'));
  }
  // A copy of the URL, which is checked: a worker wrote the file, and may still write to it.
  absl::StatusOr<std::string> UrlAt(size_t i) const {
    std::string url;
    size_t size = 0;
    const bool is_read = ReadGuarded([&] { size = UrlFrom(starts_[i]).size(); });
    if (!is_read || size > kMostBytesOfUrl) return Damaged();
    url.resize(size);
    const std::byte* const from = file_.data() + starts_[i];
    if (!ReadGuarded([&] { std::memcpy(url.data(), from, size); })) return Damaged();
    BULKHEAD_RETURN_IF_ERROR(ParseObjectUrl(url).status());
    const bool is_allowed =
        roots_.empty() || std::any_of(roots_.begin(), roots_.end(), [&](const std::string& root) {
          return IsBelowUrl(url, root);
        });
    if (!is_allowed) return UrlNotAllowed(url);
    return url;
  }
  absl::StatusOr<std::string> KeyAt(size_t i) const {
    BULKHEAD_ASSIGN_OR_RETURN(const std::string url, UrlAt(i));
    return std::string(KeyOf(url));
  }

  const std::vector<std::string> roots_;
  const int fd_;  // of the caller, for Begin
  MemoryMap file_;
  std::deque<uint32_t> starts_;  // of the URLs
  std::deque<size_t> single_;    // to be asked for each
  size_t next_ = 0;
};

ObjectLister::ObjectLister(ObjectStore& store, std::string folder, Progress progress, Done done)
    : store_(store),
      folder_(std::move(folder)),
      progress_(std::move(progress)),
      done_(std::move(done)) {}

ObjectLister::~ObjectLister() {
  for (const auto& [id, task] : tasks_) task->Drop();
}

void ObjectLister::List(const internal::v1::ListObjects& message, int urls_fd) {
  std::shared_ptr<Task> task;
  if (message.folder().empty()) {
    task = std::make_shared<UrlsTask>(*this, message, urls_fd);
  } else {
    task = std::make_shared<FolderTask>(*this, message.id(), message.folder());
  }
  tasks_[message.id()] = task;
  task->Start();
}

void ObjectLister::Release(uint64_t id) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end()) return;
  found->second->Drop();
  tasks_.erase(found);
}

void ObjectLister::Report() const {
  for (const auto& [id, task] : tasks_) task->Report();
}

}  // namespace bulkhead
