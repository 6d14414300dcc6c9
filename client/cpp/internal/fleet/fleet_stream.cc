#include "client/cpp/internal/fleet/fleet_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/base/error.h"
#include "client/cpp/internal/stream/losses.h"

namespace bulkhead::client_internal {
namespace {

constexpr char kReason[] = "several replicas make the batches";
constexpr absl::Duration kOthers = absl::Seconds(2);  // for them, when one is ready
constexpr absl::Duration kLook = absl::Seconds(1);    // between looks while Next waits
constexpr absl::Duration kOpeningLook = absl::Milliseconds(100);
// The window bounds batches and bytes, not the credits of the replicas' streams.
constexpr uint32_t kMoreCredits = 8;
constexpr uint64_t kBytesWithoutLimit = uint64_t{1} << 62;

// The error of a fleet of which no replica can serve: that of one that answered, if there is one.
absl::Status NoneCan(const Assembly::Members& missing) {
  const Member* worst = missing.front().get();
  for (const auto& member : missing) {
    if (member->cannot_serve() && !worst->cannot_serve()) worst = member.get();
  }
  if (missing.size() == 1) return worst->error;
  std::string text = absl::StrCat("none of the ", missing.size(), " replicas can serve; ",
                                  worst->replica.target, ": ", std::string(worst->error.message()));
  for (const auto& member : missing) {
    if (member.get() == worst) continue;
    absl::StrAppend(&text, "; ", member->replica.target, ": ",
                    std::string(member->error.message()));
  }
  return MakeClientError(worst->error.code(), ErrorReason(worst->error), text,
                         ErrorMetadata(worst->error));
}

// Whether no replica needs to be waited for. `quiet`: since something got on with opening.
bool IsSettled(const Assembly::Members& members, absl::Duration quiet, absl::Duration deadline) {
  const bool any = std::any_of(members.begin(), members.end(),
                               [](const auto& member) { return member->here(); });
  if (any && quiet >= kOthers) return true;
  // A service that has answered is lost, not absent: it is given time, unless others are here.
  const bool patient = !any && quiet < deadline;
  return std::all_of(members.begin(), members.end(), [&](const auto& member) {
    if (member->here()) return true;
    return !member->error.ok() && !(patient && member->answered && IsLost(member->error));
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<FleetStream>> FleetStream::Open(
    HealingStream::Config config, Replicas replicas, absl::Duration patience,
    const std::function<void(const LoaderProgress&)>& on_progress) {
  if (config.transport == Transport::kShm) {
    return MakeClientError(absl::StatusCode::kFailedPrecondition,
                           client_reason::kTransportUnavailable,
                           absl::StrCat("shared memory was demanded and cannot be had: ", kReason),
                           {{"target", config.endpoint->target()}});
  }
  std::unique_ptr<FleetStream> fleet(
      new FleetStream(std::move(config), std::move(replicas), patience));
  absl::Status opened = fleet->keepers_.Start();
  if (opened.ok()) opened = fleet->WaitOpened(patience, on_progress);
  fleet->Tell();
  if (!opened.ok()) return opened;
  absl::MutexLock lock(&fleet->mutex_);
  fleet->info_ = fleet->assembly_.info();
  return fleet;
}

FleetStream::FleetStream(HealingStream::Config config, Replicas replicas, absl::Duration patience)
    : config_(std::move(config)),
      assembly_(config_.open.credits()),
      keepers_(this, std::move(replicas), patience) {}

FleetStream::~FleetStream() { Close(); }

void FleetStream::Close() {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    came_.Notify();
  }
  keepers_.Close();
}

// Opening.

absl::Status FleetStream::WaitOpened(
    absl::Duration patience, const std::function<void(const LoaderProgress&)>& on_progress) {
  for (;;) {
    std::optional<LoaderProgress> news;
    {
      absl::MutexLock lock(&mutex_);
      if (!failure_.ok()) return failure_;
      news.swap(news_);
      const absl::Duration quiet = moved_.elapsed();
      if (!news.has_value() && IsSettled(keepers_.members(), quiet, config_.deadline)) {
        return Begin();
      }
      if (!news.has_value() && quiet >= patience) {
        return MakeClientError(
            absl::StatusCode::kDeadlineExceeded, client_reason::kDeadlineExceeded,
            absl::StrCat("the services at ", config_.endpoint->target(), " made no progress for ",
                         absl::FormatDuration(patience), " while opening the stream"),
            {{"target", config_.endpoint->target()}});
      }
      if (!news.has_value()) came_.Wait(&mutex_, kOpeningLook);
    }
    Tell();
    if (news.has_value() && on_progress) on_progress(*news);
  }
}

absl::Status FleetStream::Begin() {
  const Assembly::Members here = Here();
  Assembly::Members missing;
  for (const auto& member : keepers_.members()) {
    if (!member->here() && !member->error.ok()) missing.push_back(member);
  }
  if (here.empty()) return NoneCan(missing);
  assembly_.Begin(here, keepers_.members().size());
  for (const auto& member : missing) {
    Say(absl::StrCat("the replica at ", member->replica.target,
                     " is left out for now: ", std::string(member->error.message())));
  }
  return absl::OkStatus();
}

// Batches.

absl::StatusOr<std::optional<Batch>> FleetStream::Next(absl::Duration deadline) {
  const Deadline until(deadline);
  const Stopwatch watch;
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      auto taken = Take();
      if (!taken.has_value() && until.passed()) {
        std::string why = assembly_.WhyLate();
        if (why.empty() && lost_since_.has_value()) {
          why = absl::StrCat(": the last replica was lost ", SecondsText(lost_since_->elapsed()),
                             " ago");
        }
        taken = MakeClientError(
            absl::StatusCode::kDeadlineExceeded, client_reason::kDeadlineExceeded,
            absl::StrCat("no batch came within ", absl::FormatDuration(deadline), why),
            {{"target", config_.endpoint->target()}});
      }
      if (taken.has_value()) {
        stats_.wait_seconds += absl::ToDoubleSeconds(watch.elapsed());
        return *std::move(taken);
      }
      absl::Duration wait = std::min(until.left(), kLook);
      if (const auto late = assembly_.striping().LateAt(); late.has_value()) {
        wait = std::min(wait, std::max(*late - assembly_.now(), absl::ZeroDuration()));
      }
      came_.Wait(&mutex_, wait);
      assembly_.Look();
    }
    Tell();
  }
}

std::optional<absl::StatusOr<std::optional<Batch>>> FleetStream::Take() {
  using Result = absl::StatusOr<std::optional<Batch>>;
  if (closed_) return Result(ClosedError());
  if (assembly_.striping().has_head()) {
    auto data = assembly_.HandOut();
    if (!data.ok()) return Result(data.status());
    Batch batch(*std::move(data));
    ++stats_.batches;
    stats_.samples += batch.valid_count();
    for (const Tensor& tensor : batch.tensors()) stats_.bytes += tensor.bytes;
    return Result(std::optional<Batch>(std::move(batch)));
  }
  if (assembly_.striping().finished()) return Result(std::optional<Batch>());
  Judge();
  if (!failure_.ok()) return Result(failure_);
  return std::nullopt;
}

void FleetStream::OnBatch(Member* member, uint64_t attempt, std::unique_ptr<BatchData> batch) {
  absl::MutexLock lock(&mutex_);
  if (member->attempt != attempt || !member->here()) return;
  lost_since_.reset();
  const auto has_head = assembly_.Arrived(*member, std::move(batch));
  if (!has_head.ok()) {
    Fail(has_head.status());
  } else if (*has_head) {
    came_.Notify();
  }
}

void FleetStream::OnLeftOut(Member* member, uint64_t attempt, const std::string& record) {
  absl::MutexLock lock(&mutex_);
  if (member->attempt != attempt) return;
  member->records.insert(record);
  if (member->here()) AdoptQuarantine(*member);
}

void FleetStream::OnEnd(Member* member, uint64_t attempt, const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (member->attempt != attempt || !member->here() || closed_) return;
  Dismiss(member, status);
  if (ErrorReason(status) == "SUPERSEDED") return Fail(status);
  const std::string text = WithoutAdvice(status);
  if (Member::Passes(status)) {
    ++stats_.reconnects;
    Say(absl::StrCat("the replica at ", member->replica.target, " was lost, and ",
                     Here().empty() ? "is being reconnected" : "others make its batches", ": ",
                     text));
  } else {
    member->pause = Member::kLeftOutPause;
    Say(absl::StrCat("the replica at ", member->replica.target, " is left out: ", text));
  }
  Judge();
}

Assembly::Members FleetStream::Here() const {
  Assembly::Members here;
  for (const auto& member : keepers_.members()) {
    if (member->here()) here.push_back(member);
  }
  return here;
}

void FleetStream::Fail(const absl::Status& error) {
  if (failure_.ok()) failure_ = error;
  came_.Notify();
}

void FleetStream::Judge() {
  if (!failure_.ok() || !assembly_.begun() || !Here().empty()) return;
  const Assembly::Members& members = keepers_.members();
  if (!lost_since_.has_value()) lost_since_.emplace();
  const bool hopeless =
      !members.empty() && std::all_of(members.begin(), members.end(),
                                      [](const auto& member) { return member->cannot_serve(); });
  if (hopeless) return Fail(NoneCan(members));
  if (lost_since_->elapsed() < config_.deadline) return;
  std::string said = "there is no replica";
  for (const auto& member : members) {
    if (!member->error.ok()) said = std::string(member->error.message());
  }
  Fail(MakeClientError(
      absl::StatusCode::kUnavailable, client_reason::kServiceUnavailable,
      absl::StrCat(said, "; tried to reconnect for ", SecondsText(lost_since_->elapsed())),
      {{"target", config_.endpoint->target()}}));
}

void FleetStream::AdoptQuarantine(const Member& member) {
  const auto grew = assembly_.Quarantine(member.records);
  if (!grew.ok()) return Fail(grew.status());
  if (!*grew) return;
  const std::set<std::string> all = assembly_.quarantined();
  for (const auto& other : Here()) {
    if (other->records != all) Dismiss(other.get(), absl::OkStatus());
  }
  assembly_.Redo();
}

// What the keepers call.

StreamConfig FleetStream::ConfigFor(Member* member) {
  const uint64_t attempt = member->attempt;
  member->base = assembly_.striping().head();
  StreamConfig config = CommonConfig(config_, told_);
  config.target = member->replica.target;
  config.authority = member->replica.authority;
  config.open = config_.open;
  config.open.set_assigned(true);
  config.open.set_transport(v1::TRANSPORT_GRPC);
  const auto count = static_cast<uint32_t>(keepers_.members().size());
  config.open.mutable_credits()->set_batches(config_.open.credits().batches() + 2 * count +
                                             kMoreCredits);
  config.open.mutable_credits()->set_bytes(kBytesWithoutLimit);
  if (assembly_.cursor() != nullptr) *config.open.mutable_cursor() = *assembly_.cursor();
  // That the cursor may differ was for the first opening.
  if (assembly_.begun()) config.open.set_allow_changed_bytes(false);
  config.no_door_reason = kReason;
  config.on_batch = [this, member, attempt](std::unique_ptr<BatchData> batch) {
    OnBatch(member, attempt, std::move(batch));
  };
  config.on_left_out = [this, member, attempt](const std::string& record) {
    OnLeftOut(member, attempt, record);
  };
  config.on_end = [this, member, attempt](const absl::Status& status) {
    OnEnd(member, attempt, status);
  };
  return config;
}

absl::Status FleetStream::Admit(const std::shared_ptr<Member>& member) {
  const Stream& stream = *member->stream;
  const v1::Opened& opened = stream.opened();
  for (const auto& other : keepers_.members()) {
    if (other == member || !other->IsService(opened.boot_id())) continue;
    return MakeClientError(
        absl::StatusCode::kInvalidArgument, client_reason::kInvalidArgument,
        absl::StrCat("it is the service at ", other->replica.target, " by another address"));
  }
  absl::Status same = assembly_.Compare(*member, stream);
  if (!same.ok()) {
    if (!assembly_.begun()) Fail(same);
    return same;
  }
  absl::Status ended = stream.inbox().status();
  if (!ended.ok()) return ended;  // before it could be noted that it makes batches
  member->records.insert(opened.cursor().quarantined().begin(),
                         opened.cursor().quarantined().end());
  const std::set<std::string> all = assembly_.quarantined();
  if (!std::includes(member->records.begin(), member->records.end(), all.begin(), all.end())) {
    return absl::CancelledError("others have added records to the quarantine meanwhile");
  }
  member->state = Member::State::kHere;
  member->boot_id = opened.boot_id();
  member->error = absl::OkStatus();
  member->pause = Member::kFirstPause;
  moved_ = Stopwatch();
  AdoptQuarantine(*member);
  assembly_.Join({member});
  came_.Notify();
  return absl::OkStatus();
}

void FleetStream::Dismiss(Member* member, const absl::Status& error) {
  member->state = Member::State::kAway;
  member->error = error;
  member->pause = error.ok() ? absl::ZeroDuration() : Member::kFirstPause;
  assembly_.Leave(*member);
  came_.Notify();
  keepers_.Wake();
}

void FleetStream::NoteCount() { assembly_.Resize(keepers_.members().size()); }

void FleetStream::NoteAway(Member* member, absl::Status error) {
  absl::MutexLock lock(&mutex_);
  const auto& members = keepers_.members();
  const bool others = std::any_of(members.begin(), members.end(), [&](const auto& other) {
    return other.get() != member && other->state != Member::State::kAway;
  });
  if (others && Member::IsOfAnotherAddress(error)) {
    error = MakeClientError(absl::StatusCode::kInvalidArgument, client_reason::kInvalidArgument,
                            "it is the service of another replica by another address");
  }
  const absl::Status told = std::exchange(member->error, error);
  member->state = Member::State::kAway;
  if (absl::IsCancelled(error) && ErrorReason(error).empty()) {
    member->error = absl::OkStatus();
    member->pause = absl::ZeroDuration();
  } else if (!member->cannot_serve()) {
    member->pause =
        std::min(std::max(2 * member->pause, Member::kFirstPause), Member::kLongestPause);
    if (assembly_.begun() && !closed_ && told.ok() && !member->answered) {
      Say(absl::StrCat("the replica at ", member->replica.target,
                       " is left out for now: ", std::string(error.message())));
    }
  } else {
    member->pause = Member::kLeftOutPause;
    if (assembly_.begun() && !closed_ && told != error) {
      Say(absl::StrCat("the replica at ", member->replica.target,
                       " is left out: ", std::string(error.message())));
    }
  }
  if (ErrorReason(error) == "SUPERSEDED") Fail(error);
  Judge();
  came_.Notify();
}

void FleetStream::NoteProgress(const LoaderProgress& progress) {
  absl::MutexLock lock(&mutex_);
  news_ = progress;
  moved_ = Stopwatch();
  if (lost_since_.has_value()) lost_since_.emplace();
  came_.Notify();
}

void FleetStream::Say(const std::string& text) {
  absl::MutexLock lock(&said_mutex_);
  said_.push_back(text);
}

void FleetStream::Tell() {
  for (;;) {
    NoteEvent note;
    note.level = NoteEvent::Level::kWarning;
    {
      absl::MutexLock lock(&said_mutex_);
      if (said_.empty()) return;
      note.text = std::move(said_.front());
      said_.pop_front();
    }
    if (config_.on_note) config_.on_note(note);
  }
}

// Facts.

std::string FleetStream::transport_reason() const { return kReason; }

std::string FleetStream::boot_id() const {
  absl::MutexLock lock(&mutex_);
  const Assembly::Members here = Here();
  return here.empty() ? info_.boot_id : here.front()->boot_id;
}

uint64_t FleetStream::reconnects() const {
  absl::MutexLock lock(&mutex_);
  return stats_.reconnects;
}

LoaderStats FleetStream::stats() const {
  absl::MutexLock lock(&mutex_);
  LoaderStats stats = stats_;
  if (!closed_) stats.ready_batches = assembly_.ready();
  return stats;
}

}  // namespace bulkhead::client_internal
