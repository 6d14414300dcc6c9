#include "tools/local/parts_fetcher.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/synchronization/notification.h"
#include "server/base/error.h"

namespace bulkhead::tools {
namespace {

class FoundRequest final : public PartsFetcher::Request {
 public:
  FoundRequest(const FoundObjects& objects, const FoundObjects::Wanted& wanted,
               ObjectFetcher::Trust trust)
      : objects_(objects),
        id_(objects.Fetch(wanted, trust, [answer = answer_](const absl::Status& status) {
          answer->status = status;
          answer->here.Notify();
        })) {}
  ~FoundRequest() override { objects_.Release(id_); }

  absl::Status Await() override {
    answer_->here.WaitForNotification();
    return answer_->status;
  }

 private:
  struct Answer {
    absl::Notification here;
    absl::Status status;
  };

  const FoundObjects& objects_;
  const std::shared_ptr<Answer> answer_ = std::make_shared<Answer>();
  const uint64_t id_;
};

class FoundFetcher final : public PartsFetcher {
 public:
  explicit FoundFetcher(std::shared_ptr<const FoundObjects> objects)
      : objects_(std::move(objects)) {}

  std::unique_ptr<Request> Fetch(const FoundObjects::Wanted& wanted,
                                 ObjectFetcher::Trust trust) const override {
    return std::make_unique<FoundRequest>(*objects_, wanted, trust);
  }

 private:
  const std::shared_ptr<const FoundObjects> objects_;
};

}  // namespace

std::shared_ptr<const PartsFetcher> FetchHere(std::shared_ptr<const FoundObjects> objects) {
  return std::make_shared<const FoundFetcher>(std::move(objects));
}

std::optional<MissingPart> MissingPartOf(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  if (!info.has_value() || info->reason != reason::kNotFetched) return std::nullopt;
  MissingPart missing;
  const auto number = [&](const char* name, uint64_t& value) {
    const auto found = info->metadata.find(name);
    return found != info->metadata.end() && absl::SimpleAtoi(found->second, &value);
  };
  const auto key = info->metadata.find("key");
  if (key == info->metadata.end() || !number("begin", missing.part.begin) ||
      !number("end", missing.part.end)) {
    return std::nullopt;
  }
  missing.part.key = key->second;
  missing.is_wrong = info->metadata.count("wrong") > 0;
  return missing;
}

}  // namespace bulkhead::tools
