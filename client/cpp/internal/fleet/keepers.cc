#include "client/cpp/internal/fleet/keepers.h"

#include <algorithm>
#include <utility>

#include "client/cpp/internal/base/error.h"
#include "client/cpp/internal/base/thread.h"
#include "client/cpp/internal/fleet/fleet_stream.h"

namespace bulkhead::client_internal {

absl::Status Keepers::Start() {
  absl::MutexLock lock(&fleet_->mutex_);
  for (const Replica& replica : replicas_.found()) {
    BULKHEAD_RETURN_IF_ERROR(Add(replica));
  }
  if (replicas_.look_every() == absl::ZeroDuration()) return absl::OkStatus();
  return StartThread(
      "to watch replicas", [this] { Watch(); }, &threads_.emplace_back());
}

absl::Status Keepers::Add(const Replica& replica) {
  auto member = std::make_shared<Member>();
  member->id = next_id_++;
  member->replica = replica;
  members_.push_back(member);
  return StartThread(
      "to keep a replica", [this, member] { Keep(member); }, &threads_.emplace_back());
}

void Keepers::Close() {
  std::vector<std::shared_ptr<Stream>> streams;
  std::list<std::thread> threads;
  {
    absl::MutexLock lock(&fleet_->mutex_);
    closed_ = true;
    for (const auto& member : members_) {
      if (member->stream != nullptr) streams.push_back(member->stream);
    }
    threads.swap(threads_);
    moved_.Notify();
  }
  for (const auto& stream : streams) stream->Close();
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
}

void Keepers::Watch() {
  for (;;) {
    {
      absl::MutexLock lock(&fleet_->mutex_);
      const Deadline pause(replicas_.look_every());
      while (!closed_ && !pause.passed()) moved_.Wait(&fleet_->mutex_, pause.left());
      if (closed_) return;
    }
    replicas_.Look([this](const std::string& text) { fleet_->Say(text); });
    {
      absl::MutexLock lock(&fleet_->mutex_);
      if (closed_) return;
      GoBy(replicas_.found());
    }
    fleet_->Tell();
  }
}

void Keepers::GoBy(const std::vector<Replica>& replicas) {
  fleet_->mutex_.AssertHeld();
  const std::vector<std::shared_ptr<Member>> known = members_;
  for (const auto& member : known) {
    const bool wanted =
        std::find(replicas.begin(), replicas.end(), member->replica) != replicas.end();
    // A name may be slow to tell of one that works: that one ends by itself.
    if (wanted || (!member->replica.authority.empty() && member->here())) continue;
    if (member->here()) fleet_->Dismiss(member.get(), absl::OkStatus());
    members_.erase(std::find(members_.begin(), members_.end(), member));
  }
  for (const Replica& replica : replicas) {
    const bool is_known = std::any_of(
        known.begin(), known.end(), [&](const auto& member) { return member->replica == replica; });
    if (is_known) continue;
    if (const absl::Status added = Add(replica); !added.ok()) {
      members_.pop_back();
      fleet_->Say(std::string(added.message()));
    }
  }
  moved_.Notify();
  if (members_ != known) fleet_->NoteCount();
}

bool Keepers::IsOver(const Member& member) const {
  return closed_ || std::none_of(members_.begin(), members_.end(),
                                 [&](const auto& each) { return each.get() == &member; });
}

void Keepers::Keep(const std::shared_ptr<Member>& member) {
  while (AwaitTurn(member)) {
    const absl::Status opened = Try(member);
    if (!opened.ok()) fleet_->NoteAway(member.get(), opened);
    fleet_->Tell();
  }
  std::shared_ptr<Stream> stream;
  {
    absl::MutexLock lock(&fleet_->mutex_);
    stream = std::move(member->stream);
  }
  if (stream != nullptr) stream->Close();
}

bool Keepers::AwaitTurn(const std::shared_ptr<Member>& member) {
  {
    absl::MutexLock lock(&fleet_->mutex_);
    while (!IsOver(*member) && member->state != Member::State::kAway) {
      moved_.Wait(&fleet_->mutex_, absl::Seconds(60));
    }
  }
  fleet_->Tell();
  std::shared_ptr<Stream> old;  // closed after the mutex is released
  {
    absl::MutexLock lock(&fleet_->mutex_);
    const Deadline pause(member->pause);
    while (!IsOver(*member) && !pause.passed()) moved_.Wait(&fleet_->mutex_, pause.left());
    if (IsOver(*member)) return false;
    member->state = Member::State::kOpening;
    old = std::move(member->stream);
    member->stream = nullptr;
  }
  if (old != nullptr) old->Close();
  return true;
}

absl::Status Keepers::Try(const std::shared_ptr<Member>& member) {
  StreamConfig config;
  {
    absl::MutexLock lock(&fleet_->mutex_);
    ++member->attempt;
    member->records.clear();
    config = fleet_->ConfigFor(member.get());
  }
  auto stream = Stream::Start(std::move(config));
  if (!stream.ok()) return stream.status();
  {
    absl::MutexLock lock(&fleet_->mutex_);
    if (!IsOver(*member)) member->stream = *stream;
  }
  absl::Status opened = (*stream)->WaitOpened(
      patience_, [this](const LoaderProgress& progress) { fleet_->NoteProgress(progress); });
  {
    absl::MutexLock lock(&fleet_->mutex_);
    if (IsOver(*member)) opened = ClosedError();
    if (opened.ok()) opened = fleet_->Admit(member);
    member->answered |= (*stream)->answered();
  }
  if (!opened.ok()) (*stream)->Close();
  return opened;
}

}  // namespace bulkhead::client_internal
