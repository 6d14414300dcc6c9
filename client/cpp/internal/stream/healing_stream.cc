#include "client/cpp/internal/stream/healing_stream.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/internal/arena/arena_door.h"
#include "client/cpp/internal/base/error.h"
#include "client/cpp/internal/base/steady.h"
#include "client/cpp/internal/base/thread.h"
#include "client/cpp/internal/rpc/channel.h"
#include "client/cpp/internal/service/stale_folders.h"
#include "client/cpp/internal/stream/losses.h"

namespace bulkhead::client_internal {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Seconds(1);
// An embedded service that was lost so often in a row without giving a batch dies of what it
// serves.
constexpr int kMostEmbeddedLosses = 5;
// A door greets at once, if its service lives.
constexpr absl::Duration kDoorPatience = absl::Seconds(5);

// CURSOR_MISMATCH when the stream would not go on with the same samples and bytes.
absl::Status CheckSame(const v1::Opened& before, const v1::Opened& now) {
  const std::vector<std::string> changed = Differences(before, now);
  if (changed.empty()) return absl::OkStatus();
  return MakeClientError(
      absl::StatusCode::kFailedPrecondition, "CURSOR_MISMATCH",
      absl::StrCat("after the connection was lost the service offers another stream; changed: ",
                   absl::StrJoin(changed, ", ")));
}

}  // namespace

HealingStream::HealingStream(Config config)
    : config_(std::move(config)),
      demand_shm_(config_.transport == Transport::kShm),
      pause_(kFirstPause) {}

absl::StatusOr<std::unique_ptr<HealingStream>> HealingStream::Open(
    Config config, absl::Duration patience,
    const std::function<void(const LoaderProgress&)>& on_progress) {
  std::unique_ptr<HealingStream> healing(new HealingStream(std::move(config)));
  auto stream = healing->OpenBest(healing->config_.open, 0, patience, on_progress);
  if (!stream.ok()) stream = healing->OpenAgain(stream.status(), on_progress);
  if (!stream.ok()) return stream.status();
  healing->info_ = (*stream)->info();
  healing->opened_ = (*stream)->opened();
  healing->demand_shm_ = false;
  absl::MutexLock lock(&healing->mutex_);
  healing->candidate_ = nullptr;
  healing->stream_ = *std::move(stream);
  return healing;
}

HealingStream::~HealingStream() { Close(); }

absl::StatusOr<HealingStream::Route> HealingStream::ChooseRoute(absl::Duration patience) {
  Route route;
  if (config_.transport == Transport::kGrpc) return route;
  const std::string target = config_.endpoint->target();
  const std::string socket_path = UnixPathOf(target);
  absl::StatusOr<std::shared_ptr<ArenaDoor>> door = door_.lock();
  if (socket_path.empty()) {
    door = MakeClientError(
        absl::StatusCode::kFailedPrecondition, client_reason::kTransportUnavailable,
        absl::StrCat("no shared memory with a service at ", target, ", which is no unix: address"),
        {{"target", target}});
  } else if (*door == nullptr || (*door)->path() != socket_path + kDoorSuffix ||
             !(*door)->alive()) {
    door = ArenaDoor::Connect(
        socket_path + kDoorSuffix, std::min(patience, kDoorPatience), [this] { return closed(); },
        config_.credentials.socket_user);
  }
  if (door.ok()) {
    door_ = *door;
    route.door = *std::move(door);
    route.transport = demand_shm_ ? v1::TRANSPORT_SHM : v1::TRANSPORT_UNSPECIFIED;
    route.final = demand_shm_;
    return route;
  }
  if (demand_shm_ || ErrorReason(door.status()) != client_reason::kTransportUnavailable) {
    return door.status();
  }
  route.no_door_reason = std::string(door.status().message());
  return route;
}

absl::StatusOr<std::shared_ptr<Stream>> HealingStream::OpenBest(
    const v1::Open& open, uint64_t first_sequence, absl::Duration patience,
    const std::function<void(const LoaderProgress&)>& on_progress) {
  const Deadline until(patience);
  BULKHEAD_ASSIGN_OR_RETURN(auto route, ChooseRoute(patience));
  auto stream = OpenBy(route, open, first_sequence, patience, on_progress);
  if (!stream.ok()) {
    if (route.final || ErrorReason(stream.status()) != client_reason::kTransportUnavailable) {
      return stream;
    }
    Route plain;
    plain.no_door_reason = std::string(stream.status().message());
    return OpenBy(plain, open, first_sequence, patience, on_progress);
  }
  // The service may have started between the two connects. A stream that used shared memory before
  // must use it again, so the door is tried once more.
  if (!route.no_door_reason.empty() && info_.transport == Transport::kShm) {
    auto again = ChooseRoute(until.left());
    if (again.ok() && again->door != nullptr) {
      (*stream)->Close();
      return OpenBy(*again, open, first_sequence, patience, on_progress);
    }
  }
  return stream;
}

absl::StatusOr<std::shared_ptr<Stream>> HealingStream::OpenBy(
    const Route& route, const v1::Open& open, uint64_t first_sequence, absl::Duration patience,
    const std::function<void(const LoaderProgress&)>& on_progress) {
  auto stream = Stream::Start(MakeConfig(route, open, first_sequence));
  if (!stream.ok()) return stream;
  std::shared_ptr<Stream> before;  // destroyed after the lock is released
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return ClosedError();
    before = std::move(candidate_);
    candidate_ = *stream;
  }
  absl::Status opened = (*stream)->WaitOpened(patience, on_progress);
  {
    absl::MutexLock lock(&mutex_);  // a service that gets on is not lost
    if (lost_since_.has_value()) lost_since_->Exclude((*stream)->inbox().preparing_time());
  }
  if (!opened.ok()) return opened;
  return stream;
}

Stream::Config CommonConfig(const HealingStream::Config& all, ToldEvents& told) {
  Stream::Config config;
  config.credentials = all.credentials;
  config.silence = all.silence;
  config.held_deadline = all.held_deadline;
  config.on_warning = all.on_warning;
  config.on_hang = all.on_hang;
  config.on_note = all.on_note;
  if (all.on_substitution) {
    config.on_substitution = [&all, &told](const SubstitutionEvent& event) {
      if (told.IsNew(event)) all.on_substitution(event);
    };
  }
  if (all.on_quarantine) {
    config.on_quarantine = [&all, &told](const QuarantineEvent& event) {
      if (told.IsNew(event)) all.on_quarantine(event);
    };
  }
  return config;
}

Stream::Config HealingStream::MakeConfig(const Route& route, v1::Open open,
                                         uint64_t first_sequence) {
  Stream::Config config = CommonConfig(config_, told_);
  config.target = config_.endpoint->target();
  config.open = std::move(open);
  config.open.set_transport(route.transport);
  config.door = route.door;
  if (route.door != nullptr) config.open.set_arena_token(route.door->token());
  config.no_door_reason = route.no_door_reason;
  config.first_sequence = first_sequence;
  if (config_.endpoint->embedded()) {
    // Weakly: a batch that is dropped may be a stream's last holder, and must not end a service.
    config.post_mortem = [weak = std::weak_ptr<Endpoint>(config_.endpoint)] {
      const auto endpoint = weak.lock();
      return endpoint == nullptr ? std::string() : endpoint->PostMortem();
    };
  }
  return config;
}

absl::StatusOr<std::optional<Batch>> HealingStream::Next(absl::Duration deadline) {
  const Stopwatch watch;
  std::shared_ptr<Stream> stream;  // destroyed after the lock is released
  auto batch = Await(deadline, &stream);
  absl::MutexLock lock(&mutex_);
  stats_.wait_seconds += absl::ToDoubleSeconds(watch.elapsed());
  if (!batch.ok()) return batch;
  NoteAnswer(stream);
  if (batch->has_value()) Count(**batch);
  return batch;
}

absl::StatusOr<std::optional<Batch>> HealingStream::Await(absl::Duration deadline,
                                                          std::shared_ptr<Stream>* asked) {
  const Deadline until(deadline);
  for (;;) {
    std::shared_ptr<Stream>& stream = *asked;
    stream = nullptr;  // not under the lock: it may be the last to hold one that was lost
    {
      absl::MutexLock lock(&mutex_);
      while (!closed_ && healing_ && !until.passed()) changed_.Wait(&mutex_, until.left());
      if (closed_) return ClosedError();
      if (healing_) {
        return MakeClientError(
            absl::StatusCode::kDeadlineExceeded, client_reason::kDeadlineExceeded,
            absl::StrCat("no batch came within ", absl::FormatDuration(deadline),
                         ": the service was lost ", SecondsText(lost_since_->elapsed()),
                         " ago and is being reconnected"),
            {{"target", config_.endpoint->target()}});
      }
      if (!failure_.ok()) return failure_;
      stream = stream_;
    }
    auto batch = stream->Next(until.left(), deadline);
    if (batch.ok() || !IsLost(batch.status())) return batch;
    BULKHEAD_RETURN_IF_ERROR(StartHealing(stream, batch.status()));
  }
}

void HealingStream::NoteAnswer(const std::shared_ptr<Stream>& stream) {
  if (healing_ || stream_ != stream) return;  // an old stream's batch: it proves nothing
  lost_since_.reset();
  losses_ = 0;
  pause_ = kFirstPause;
}

void HealingStream::Count(const Batch& batch) {
  ++stats_.batches;
  stats_.samples += batch.valid_count();
  for (const Tensor& tensor : batch.tensors()) stats_.bytes += tensor.bytes;
}

absl::Status HealingStream::StartHealing(const std::shared_ptr<Stream>& stream,
                                         const absl::Status& cause) {
  if (config_.deadline <= absl::ZeroDuration()) return cause;
  absl::MutexLock join_lock(&join_mutex_);
  bool again = false;  // no batch came since the last loss
  {
    absl::MutexLock lock(&mutex_);
    if (closed_ || healing_ || stream_ != stream || !failure_.ok()) return absl::OkStatus();
    again = lost_since_.has_value();
    if (!again) lost_since_.emplace();
    failure_ = GivenUp(cause);
    if (!failure_.ok()) return failure_;
    healing_ = true;
  }
  if (!again && config_.on_note) {
    config_.on_note({NoteEvent::Level::kWarning, "",
                     absl::StrCat("the service was lost; the loader connects again by itself and "
                                  "goes on where it was: ",
                                  WithoutAdvice(cause))});
  }
  if (healer_.joinable()) healer_.join();  // an earlier one, which is done
  v1::Open open = config_.open;
  *open.mutable_cursor() = stream->inbox().resume_cursor();
  // That the cursor may differ was for the first opening; from now on nothing may change.
  open.set_allow_changed_bytes(false);
  absl::Status started = StartThread(
      "to reconnect",
      [this, open = std::move(open), stream, cause, again] {
        if (again) {
          absl::MutexLock lock(&mutex_);
          BackOff();
        }
        Heal(open, stream, cause);
      },
      &healer_);
  if (started.ok()) return started;
  absl::MutexLock lock(&mutex_);
  healing_ = false;
  changed_.Notify();
  return started;
}

void HealingStream::Heal(const v1::Open& open, const std::shared_ptr<Stream>& lost,
                         const absl::Status& cause) {
  auto stream = FindAgain(open, lost->inbox().next_sequence(), lost->target(), cause, nullptr);
  std::shared_ptr<Stream> candidate;  // destroyed after the lock is released, as is the old stream
  absl::MutexLock lock(&mutex_);
  candidate = std::move(candidate_);
  healing_ = false;
  changed_.Notify();
  if (closed_) return;
  if (stream.ok()) {
    stream_.swap(*stream);
    ++stats_.reconnects;
  } else {
    failure_ = stream.status();
  }
}

absl::StatusOr<std::shared_ptr<Stream>> HealingStream::OpenAgain(
    const absl::Status& cause, const std::function<void(const LoaderProgress&)>& on_progress) {
  if (!IsLost(cause) || config_.deadline <= absl::ZeroDuration()) return cause;
  std::string target;
  {
    absl::MutexLock lock(&mutex_);
    const bool connected = candidate_ != nullptr;
    if (!connected && !config_.endpoint->embedded()) return cause;
    if (connected && !candidate_->answered() && !IsServicesWord(ErrorReason(cause))) return cause;
    target = connected ? candidate_->target() : config_.endpoint->target();
    lost_since_.emplace();
    losses_ = 1;
  }
  auto stream = FindAgain(config_.open, 0, target, cause, on_progress);
  absl::MutexLock lock(&mutex_);
  if (stream.ok()) ++stats_.reconnects;
  return stream;
}

absl::StatusOr<std::shared_ptr<Stream>> HealingStream::FindAgain(
    const v1::Open& open, uint64_t first_sequence, std::string target, absl::Status cause,
    const std::function<void(const LoaderProgress&)>& on_progress) {
  for (;;) {
    if (ErrorReason(cause) == client_reason::kServiceSilent) {
      config_.endpoint->KillSilent(target);
    }
    absl::Duration patience;
    {
      absl::MutexLock lock(&mutex_);
      patience = std::max(config_.deadline - lost_since_->elapsed(), absl::ZeroDuration());
    }
    auto stream = Reconnect(open, first_sequence, patience, on_progress);
    if (stream.ok()) return stream;
    // An attempt without any time left says nothing of the service.
    const bool slow = patience == absl::ZeroDuration() ||
                      ErrorReason(stream.status()) == client_reason::kDeadlineExceeded;
    if (!slow && !MayPass(stream.status())) return stream;
    if (!slow) {
      cause = stream.status();
      target = config_.endpoint->target();
    }
    std::shared_ptr<Stream> failed;  // destroyed after the lock is released
    absl::MutexLock lock(&mutex_);
    failed = std::move(candidate_);
    if (closed_) return ClosedError();
    BULKHEAD_RETURN_IF_ERROR(GivenUp(cause));
    BackOff();
    if (closed_) return ClosedError();
  }
}

void HealingStream::BackOff() {
  const Deadline pause(pause_);
  while (!closed_ && !pause.passed()) changed_.Wait(&mutex_, pause.left());
  pause_ = std::min(2 * pause_, kLongestPause);
}

bool HealingStream::MayPass(const absl::Status& status) const {
  const std::string reason = ErrorReason(status);
  if (reason == client_reason::kTransportUnavailable && demand_shm_) {
    const std::shared_ptr<ArenaDoor> door = door_.lock();
    return door == nullptr || !door->alive();  // a service that just starts has none yet
  }
  if (IsRefused(status)) return opened_.has_cursor();
  // Files that are just being replaced may be right in a moment.
  return IsLost(status) || reason == client_reason::kOutOfThreads ||
         reason == client_reason::kCredentialsInvalid;
}

absl::StatusOr<std::shared_ptr<Stream>> HealingStream::Reconnect(
    const v1::Open& open, uint64_t first_sequence, absl::Duration patience,
    const std::function<void(const LoaderProgress&)>& on_progress) {
  BULKHEAD_RETURN_IF_ERROR(config_.endpoint->Revive(patience, [this] { return closed(); }));
  auto stream = OpenBest(open, first_sequence, patience, on_progress);
  if (!stream.ok()) return stream;
  if (!opened_.has_cursor()) return stream;  // the first one
  BULKHEAD_RETURN_IF_ERROR(CheckSame(opened_, (*stream)->opened()));
  return stream;
}

absl::Status HealingStream::GivenUp(const absl::Status& cause) {
  const absl::Duration tried = lost_since_->elapsed();
  if (IsRefused(cause) || ErrorReason(cause) == kOpenedTooOften) {
    return tried >= config_.deadline ? cause : absl::OkStatus();
  }
  ++losses_;
  std::string why;
  if (tried >= config_.deadline) {
    why = absl::StrCat("tried to reconnect for ", SecondsText(tried));
  } else if (config_.endpoint->embedded() && losses_ > kMostEmbeddedLosses) {
    why = absl::StrCat("the embedded service was lost ", losses_,
                       " times in a row without giving a batch");
  } else {
    return absl::OkStatus();
  }
  const bool lost = IsLost(cause) && ErrorReason(cause) != client_reason::kServiceSilent;
  return MakeClientError(
      lost ? absl::StatusCode::kUnavailable : cause.code(),
      lost ? std::string(client_reason::kServiceUnavailable) : ErrorReason(cause),
      absl::StrCat(cause.message(), "; ", why), ErrorMetadata(cause));
}

void HealingStream::Close() {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Stream> candidate;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    changed_.Notify();
    stream = stream_;
    candidate = candidate_;
  }
  if (candidate != nullptr) candidate->Close();
  if (stream != nullptr) stream->Close();
  absl::MutexLock lock(&join_mutex_);
  if (healer_.joinable()) healer_.join();
}

bool HealingStream::closed() const {
  absl::MutexLock lock(&mutex_);
  return closed_;
}

std::string HealingStream::boot_id() const {
  absl::MutexLock lock(&mutex_);
  return stream_->info().boot_id;
}

Transport HealingStream::transport() const {
  absl::MutexLock lock(&mutex_);
  return stream_->info().transport;
}

std::string HealingStream::transport_reason() const {
  absl::MutexLock lock(&mutex_);
  return stream_->info().transport_reason;
}

uint64_t HealingStream::reconnects() const {
  absl::MutexLock lock(&mutex_);
  return stats_.reconnects;
}

LoaderStats HealingStream::stats() const {
  std::shared_ptr<Stream> stream;
  LoaderStats stats;
  {
    absl::MutexLock lock(&mutex_);
    stream = stream_;
    stats = stats_;
  }
  stream->inbox().AddTo(&stats);
  return stats;
}

}  // namespace bulkhead::client_internal
