#include "server/supervisor/share/share_group.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/os/memory/stream_copy.h"

namespace bulkhead {
namespace {

// What a group hears of its maker.
class MakerObserver final : public StreamObserver {
 public:
  explicit MakerObserver(std::weak_ptr<ShareGroup> group) : group_(std::move(group)) {}

  void OnBatch(ReadyBatch batch) override {
    if (const auto group = group_.lock()) group->OnMade(std::move(batch));
  }
  // Members report substituted and quarantined samples themselves.
  void OnEvent(const v1::SampleEvent& event) override {
    if (event.kind() != v1::SampleEvent::KIND_HUNG) return;
    Forward([&](StreamObserver& member) { member.OnEvent(event); });
  }
  void OnActivity(const std::string& activity) override {
    Forward([&](StreamObserver& member) { member.OnActivity(activity); });
  }
  void OnNote(const v1::Note& note) override {
    Forward([&](StreamObserver& member) { member.OnNote(note); });
  }
  void OnEnd() override { OnFailed(absl::CancelledError("it has ended")); }
  void OnFailed(const absl::Status& status) override {
    if (const auto group = group_.lock()) group->OnEnded(status);
  }

 private:
  void Forward(const std::function<void(StreamObserver&)>& event) const {
    if (const auto group = group_.lock()) group->Forward(event);
  }

  const std::weak_ptr<ShareGroup> group_;
};

// Where a batch is copied to.
struct Destination {
  std::shared_ptr<Arena> arena;
  uint32_t slot = 0;
  std::shared_ptr<const void> writer;  // keeps the slot from others until the copy has ended
  std::weak_ptr<Stream> stream;
  LeaseTable::WorkerId bringer = 0;
};

void CopySlot(const SlotHold& from, const std::vector<Destination>& to) {
  std::vector<std::byte*> slots;
  slots.reserve(to.size());
  for (const Destination& each : to) slots.push_back(each.arena->slot(each.slot));
  // All of them are of one size.
  if (!to.empty()) CopyToEach(slots, from.data(), to.front().arena->slot_bytes());
}

ShareWindow::BatchAt RangesOf(const StreamConfig& config) {
  return [batch_at = config.batch_at](uint64_t sequence) -> std::optional<SharedRange> {
    const auto header = batch_at(sequence);
    if (!header.has_value()) return std::nullopt;
    return SharedRange::Of(*header);
  };
}

}  // namespace

void ShareGroup::Join(const std::shared_ptr<Stream>& member, uint64_t sequence) {
  members_[member->id()] = member;
  window_.Join(member->id(), RangesOf(member->config()), sequence);
}

void ShareGroup::Leave(uint64_t member) {
  members_.erase(member);
  window_.Leave(member);
  for (auto& [range, waiters] : waiting_) {
    std::erase_if(waiters, [&](const Waiter& waiter) {
      if (waiter.stream_id != member) return false;
      GiveBack(waiter);
      return true;
    });
  }
  DropUnkept();
  if (members_.size() >= 2) return;
  EndMaker();
  reason_.clear();
}

ShareWindow::Answer ShareGroup::Bring(const BroughtBatch& batch) {
  const auto member = members_.find(batch.stream_id);
  if (member == members_.end()) return ShareWindow::Answer::kAlone;
  const SharedRange range = SharedRange::Of(batch.header);
  const bool can_make = maker_ != nullptr && maker_->stream_id != 0;
  const ShareWindow::Answer answer =
      window_.Ask(batch.stream_id, batch.header.sequence(), range, can_make);
  const Waiter waiter{member->second, batch.stream_id, batch.slot, batch.bringer};
  switch (answer) {
    case ShareWindow::Answer::kAlone:
    case ShareWindow::Answer::kFull:
      break;
    case ShareWindow::Answer::kWould:
      if (const auto stream = member->second.lock()) StartMaker(*stream);
      break;
    case ShareWindow::Answer::kMake:
      Order(batch.header);
      [[fallthrough]];
    case ShareWindow::Answer::kWait:
      waiting_[range].push_back(waiter);
      break;
    case ShareWindow::Answer::kTake:
      Copy(made_.at(range), {waiter});
      break;
  }
  DropUnkept();
  return answer;
}

bool ShareGroup::GiveUpMaker() {
  if (maker_ == nullptr) return false;
  const std::string pause = absl::FormatDuration(kMakerPause);
  spdlog::info("pipeline {}: {} streams share no batches for {}: another stream needs the memory",
               context_.pipeline, members(), pause);
  maker_->memory->MarkReturning();
  EndMaker();
  Pause(absl::StrCat("its memory went to another stream; sharing is tried again after ", pause));
  return true;
}

std::string ShareGroup::WhyNothing(uint64_t member) const {
  if (members_.size() < 2) {
    return "no other open stream with `share` has its spec and code, order, seed, rank, world and "
           "quarantined records";
  }
  if (NearOf(member) > 0) return reason_;
  return absl::StrCat("the others of its group are more than ", context_.window,
                      " batches from it");
}

void ShareGroup::OnMade(ReadyBatch batch) {
  if (maker_ == nullptr || batch.header.quarantine_digest() != quarantine_digest_) return;
  maker_->ordered->erase(batch.header.sequence());
  maker_->orders->NoteSent(batch.header.sequence());
  const SharedRange range = SharedRange::Of(batch.header);
  const Made made{std::move(batch.hold),
                  std::make_shared<const std::vector<internal::v1::Substitution>>(
                      std::move(batch.substitutions))};
  if (const auto waiting = waiting_.extract(range)) Copy(made, waiting.mapped());
  made_[range] = made;
  if (!window_.NoteMade(range)) made_.erase(range);
  DropUnkept();
}

void ShareGroup::OnEnded(const absl::Status& status) {
  if (maker_ == nullptr) return;  // it was ended
  Pause(std::string(status.message()));
  EndMakerSoon();
}

void ShareGroup::OnQuarantined(const v1::QuarantinedRecord& record) {
  // The maker found it for all of them. Each has another set from now on, and so another group.
  for (const auto& [id, weak] : members_) {
    const std::shared_ptr<Stream> stream = weak.lock();
    if (stream == nullptr || stream->finished() ||
        !stream->Quarantine(record.record(), record.reason(), record.deaths())) {
      continue;
    }
    internal::v1::ToWorker message;
    *message.mutable_set_quarantine() = stream->quarantine();
    context_.send_workers(message);
  }
  EndMakerSoon();
}

void ShareGroup::Forward(const std::function<void(StreamObserver&)>& event) const {
  for (const auto& [id, weak] : members_) {
    const std::shared_ptr<Stream> stream = weak.lock();
    if (stream != nullptr && !stream->finished()) event(*stream->config().observer);
  }
}

void ShareGroup::StartMaker(const Stream& member) {
  if (maker_ != nullptr || MonotonicNanos() < no_maker_before_ns_) return;
  const MemoryBudget::Demand demand{
      .slot_count = context_.window + 1,  // one is reserved for redoing the head
      .slot_bytes = member.config().arena->slot_bytes(),
      .asker = "what streams share"};
  absl::StatusOr<MemoryBudget::Admission> admitted = context_.budget->Admit(demand);
  if (!admitted.ok()) {
    NoteRefusal(absl::StrCat(admitted.status().message(), ", or lower --share-window"));
    context_.make_room(demand);  // for the next attempt
    return;
  }
  absl::StatusOr<std::shared_ptr<Arena>> arena =
      Arena::Create(demand.slot_bytes, demand.slot_count);
  if (!arena.ok()) return NoteRefusal(std::string(arena.status().message()));
  reason_.clear();
  maker_ = std::make_unique<Maker>();
  maker_->arena = *arena;
  maker_->memory = std::make_shared<ArenaMemory>(*arena, std::move(admitted->arena));
  const auto config = std::make_shared<StreamConfig>(MakerConfig(member));
  config->memory = maker_->memory;
  config->writer = config->memory->MakeWriter();
  spdlog::info("pipeline {}: {} streams share batches; the {} that are kept take {}",
               context_.pipeline, members(), context_.window, FormatBytes((*arena)->bytes()));
  FillFrom(0, config);
}

void ShareGroup::FillFrom(uint32_t slot, const std::shared_ptr<StreamConfig>& config) {
  const std::shared_ptr<Arena> arena = config->arena;
  if (maker_ == nullptr || maker_->arena != arena) return;
  if (slot == arena->usual_slots()) {
    maker_->stream_id = context_.new_stream_id();
    context_.add_stream(std::make_shared<Stream>(maker_->stream_id, std::move(*config),
                                                 context_.loop, context_.dispatch));
    return;
  }
  // The pages are charged to the process that touches them first, which should be this one.
  const bool posted =
      context_.copier->Post([arena, slot, later = context_.later, weak = weak_from_this(), config] {
        arena->Prefault(slot);
        arena->UseHugePages(slot);
        later([weak, slot, config] {
          if (const auto group = weak.lock()) group->FillFrom(slot + 1, config);
        });
      });
  if (posted) return;
  EndMaker();
  Pause("batches are copied too slowly");
}

void ShareGroup::NoteRefusal(std::string reason) {
  reason_ = std::move(reason);
  if (!refusals_told_.Take(MonotonicNanos())) return;
  spdlog::info("pipeline {}: {} streams could share batches, and do not: {}", context_.pipeline,
               members(), reason_);
}

StreamConfig ShareGroup::MakerConfig(const Stream& member) {
  StreamConfig config = member.config();
  config.for_others = true;
  config.share_key.clear();
  config.about.set_name("batches shared by " + config.about.name());
  config.about.clear_peer();
  config.about.clear_peer_pid();
  config.meter = nullptr;
  config.tracer = nullptr;
  config.about.set_transport(v1::TRANSPORT_GRPC);
  config.arena = maker_->arena;
  config.binding.set_slot_count(maker_->arena->slot_count());
  const internal::v1::SetQuarantine quarantine = member.quarantine();
  for (const std::string& record : quarantine.quarantined()) {
    config.quarantined.Add(record).IgnoreError();  // the member has it, so it fits
  }
  config.on_quarantined = [weak = weak_from_this()](const v1::QuarantinedRecord& record) {
    if (const auto group = weak.lock()) group->OnQuarantined(record);
  };
  config.batch_at = [ordered =
                         maker_->ordered](uint64_t sequence) -> std::optional<v1::BatchHeader> {
    const auto found = ordered->find(sequence);
    if (found == ordered->end()) return std::nullopt;
    return found->second;
  };
  config.assignments = maker_->orders;
  config.ordered = true;
  config.completed.clear();
  config.code.clear();
  config.observer = std::make_shared<MakerObserver>(weak_from_this());
  return config;
}

void ShareGroup::EndMaker() {
  if (maker_ == nullptr) return;
  const uint64_t id = maker_->stream_id;
  maker_.reset();
  for (const auto& [range, waiters] : waiting_) {
    for (const Waiter& waiter : waiters) GiveBack(waiter);
  }
  waiting_.clear();
  made_.clear();
  window_.Clear();
  context_.later([remove = context_.remove_stream, id] { remove(id); });
}

void ShareGroup::EndMakerSoon() {
  context_.later([weak = weak_from_this()] {
    if (const auto group = weak.lock()) group->EndMaker();
  });
}

void ShareGroup::Order(const v1::BatchHeader& header) {
  const uint64_t sequence = maker_->next++;
  v1::BatchHeader& ordered = (*maker_->ordered)[sequence];
  ordered = header;
  ordered.set_sequence(sequence);
  v1::Assign order;
  order.add_sequences(sequence);
  maker_->orders->Add(order);
}

void ShareGroup::Copy(const Made& made, const std::vector<Waiter>& waiters) {
  std::vector<Destination> destinations;
  for (const Waiter& waiter : waiters) {
    const std::shared_ptr<Stream> stream = waiter.stream.lock();
    if (stream == nullptr) continue;
    const StreamConfig& config = stream->config();
    destinations.push_back({config.arena, waiter.slot, config.writer, stream, waiter.bringer});
  }
  const bool posted =
      context_.copier->Post([from = made.hold, to = std::move(destinations),
                             substitutions = made.substitutions, loop = context_.loop]() mutable {
        CopySlot(*from, to);
        from.reset();
        for (Destination& destination : to) {
          loop->Post([member = destination.stream, bringer = destination.bringer, substitutions] {
            if (const auto stream = member.lock())
              stream->brought().Complete(bringer, *substitutions);
          });
        }
      });
  if (posted) return;
  for (const Waiter& waiter : waiters) GiveBack(waiter);
}

void ShareGroup::GiveBack(const Waiter& waiter) const {
  context_.later([weak = waiter.stream, bringer = waiter.bringer] {
    if (const auto member = weak.lock()) member->brought().GiveBack(bringer);
  });
}

}  // namespace bulkhead
