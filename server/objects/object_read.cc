#include "server/objects/object_read.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/file_changed.h"
#include "server/objects/answer_head.h"

namespace bulkhead {
namespace {

// A range while it is read: what is still missing, and whether an answer has it.
class Reading {
 public:
  Reading(const ObjectInfo& object, uint64_t begin, uint64_t end, ObjectStore::Sink sink)
      : object_(object),
        shown_(ShownUrl(object.url)),
        next_(begin),
        end_(end),
        sink_(std::move(sink)) {}

  NamedValues Headers() const {
    NamedValues headers = {{"Range", absl::StrCat("bytes=", next_, "-", end_ - 1)}};
    if (IsStrongEtag(object_.etag)) {
      headers.emplace_back("If-Match", absl::StrCat("\"", BareEtag(object_.etag), "\""));
    }
    return headers;
  }

  absl::Status CheckHead(const HttpHead& head) const {
    if (head.code == 206) {
      const absl::Status range = CheckRange(head.Header("content-range"));
      return range.ok() ? CheckIdentity(head) : range;
    }
    if (head.code == 200) return CheckWhole(head);
    return absl::UnavailableError(absl::StrCat("the store answers ", head.code));
  }

  absl::Status Take(absl::string_view part) {
    if (part.size() > end_ - next_) {
      return Unreadable(absl::StatusCode::kFailedPrecondition, shown_,
                        "the store sends more bytes than were asked for");
    }
    absl::Status taken = sink_(next_, part);
    if (taken.ok()) next_ += part.size();
    return taken;
  }

  bool has_all() const { return next_ == end_; }

 private:
  absl::Status CheckRange(const std::string& text) const {
    const std::optional<ContentRange> range = ParseContentRange(text);
    if (!range.has_value()) {
      return absl::UnavailableError("an answer 206 without a range of bytes");
    }
    if (range->total.value_or(object_.size_bytes) != object_.size_bytes) {
      return SizeChanged(*range->total);
    }
    if (range->begin != next_ || range->end != end_) {
      return absl::UnavailableError(absl::StrCat("asked for the bytes ", next_, "-", end_ - 1,
                                                 ", the store sends ", range->begin, "-",
                                                 range->end - 1));
    }
    return absl::OkStatus();
  }

  absl::Status CheckWhole(const HttpHead& head) const {
    const std::optional<uint64_t> size = WholeSize(head);
    const bool is_xml = absl::StrContains(head.Header("content-type"), "xml");
    if (is_xml && size != object_.size_bytes) {
      return absl::UnavailableError("the store answers 200 with an error");
    }
    if (size.has_value() && *size != object_.size_bytes) return SizeChanged(*size);
    if (next_ > 0 || end_ < object_.size_bytes) {
      return Unreadable(absl::StatusCode::kFailedPrecondition, shown_,
                        "the server sends whole objects only (it answers 200 to a request for a "
                        "range); use one that serves ranges");
    }
    return CheckIdentity(head);
  }

  absl::Status CheckIdentity(const HttpHead& head) const {
    const std::string etag = head.Header("etag");
    if (!object_.etag.empty() && !etag.empty()) {
      if (BareEtag(etag) == BareEtag(object_.etag)) return absl::OkStatus();
      return FileChanged(shown_, "its ETag is another one");
    }
    const int64_t modified = ModifiedNanos(head);
    if (object_.mtime_ns == 0 || modified == 0 || modified == object_.mtime_ns) {
      return absl::OkStatus();
    }
    return FileChanged(shown_, absl::StrCat("it was written to; its size of ", object_.size_bytes,
                                            " bytes is the same"));
  }

  absl::Status SizeChanged(uint64_t now) const {
    return FileChanged(shown_, absl::StrCat(object_.size_bytes, " bytes then, ", now, " now"));
  }

  const ObjectInfo object_;
  const std::string shown_;
  uint64_t next_;  // the first byte that is missing
  const uint64_t end_;
  const ObjectStore::Sink sink_;
};

}  // namespace

void ReadRange(CallRunner* calls, const ObjectInfo& object, const ObjectUrl& target, uint64_t begin,
               uint64_t end, ObjectStore::Sink sink, ObjectStore::OnRead done) {
  const auto reading = std::make_shared<Reading>(object, begin, end, std::move(sink));
  ObjectCall call;
  call.shown = ShownUrl(object.url);
  call.operation.target = target;
  call.headers = [reading] { return reading->Headers(); };
  call.check_head = [reading](const HttpHead& head) { return reading->CheckHead(head); };
  call.on_body = [reading](absl::string_view part) { return reading->Take(part); };
  call.has_all = [reading] { return reading->has_all(); };
  call.check = [reading](const HttpResponse&) {
    return reading->has_all() ? absl::OkStatus()
                              : absl::UnavailableError("the answer ended before the range did");
  };
  call.may_hedge = true;
  call.done = [done = std::move(done)](const absl::StatusOr<HttpResponse>& response) {
    done(response.status());
  };
  calls->Start(std::move(call));
}

}  // namespace bulkhead
