#include "tests/client/fake_service.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "bulkhead/internal/v1/rpc_status.pb.h"
#include "client/cpp/internal/batch/quarantine.h"

namespace bulkhead {
namespace {

constexpr uint64_t kSamples = 20;
constexpr uint64_t kBatch = 8;
constexpr uint64_t kPartBytes = 40;  // small, so that batches need several parts

grpc::Status Error(grpc::StatusCode code, const std::string& message, const std::string& reason,
                   const std::string& key, const std::string& value) {
  internal::v1::RpcErrorInfo info;
  info.set_reason(reason);
  (*info.mutable_metadata())[key] = value;
  internal::v1::RpcStatus status;
  status.set_code(code);
  auto* detail = status.add_details();
  detail->set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  detail->set_value(info.SerializeAsString());
  return grpc::Status(code, message, status.SerializeAsString());
}

using Stream = grpc::ServerReaderWriter<v1::StreamResponse, v1::StreamRequest>;

// Says that it lives, unless it is `mute`, until the client ends the call.
void WaitForEnd(grpc::ServerContext* context, Stream* stream, bool mute) {
  v1::StreamResponse response;
  response.mutable_heartbeat();
  for (int i = 1; !context->IsCancelled(); ++i) {
    if (!mute && i % 8 == 0) stream->Write(response);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// The order in which an unordered stream sends the three batches of an epoch.
constexpr uint64_t kUnordered[] = {1, 2, 0};

}  // namespace

struct FakeService::Session {
  grpc::ServerContext* context;
  grpc::ServerReaderWriter<v1::StreamResponse, v1::StreamRequest>* stream;
  v1::Open open;
  std::string mode;
  uint64_t sequence = 0;
  std::vector<uint64_t> unreleased;  // in the order of sending
  std::unique_ptr<FakeArena> arena;
  uint64_t arena_id = 0;
  v1::Cursor cursor;  // of Opened; the quarantine is that of the next batch
};

v1::BatchSchema FakeSchema() {
  v1::BatchSchema schema;
  auto* index = schema.add_tensors();
  index->set_name("index");
  index->set_dtype(v1::DTYPE_INT64);
  index->set_element_bytes(8);
  index->set_sample_bytes(8);
  auto* pix = schema.add_tensors();
  pix->set_name("pix");
  pix->set_dtype(v1::DTYPE_UINT8);
  pix->add_shape(3);
  pix->set_element_bytes(1);
  pix->set_sample_bytes(3);
  pix->set_batch_offset(64);
  schema.set_batch_size(kBatch);
  schema.set_batch_bytes(128);
  return schema;
}

grpc::Status FakeService::Stream(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<v1::StreamResponse, v1::StreamRequest>* stream) {
  v1::StreamRequest request;
  if (!stream->Read(&request)) return grpc::Status::OK;
  Session session{context, stream, request.open(), request.open().spec().text().text()};
  {
    std::lock_guard<std::mutex> lock(mutex_);
    opens_.push_back(session.open);
  }
  if (session.mode == "spec_error") {
    return Error(grpc::StatusCode::INVALID_ARGUMENT, "x.yaml:3:5: wrong", "SPEC_INVALID", "line",
                 "3");
  }
  if (session.mode == "long_error") {
    return Error(grpc::StatusCode::INVALID_ARGUMENT, "x.yaml:3:5: wrong", "SPEC_INVALID", "lines",
                 std::string(12 << 10, 'x'));
  }
  if (session.mode == "silent") {
    WaitForEnd(context, stream, true);
    return grpc::Status::OK;
  }
  if (session.mode == "progress" || session.mode == "progress_lost") {
    for (int i = 0; i < 8; ++i) {
      v1::StreamResponse response;
      response.mutable_progress()->set_files_done(static_cast<uint64_t>(i));
      response.mutable_progress()->set_files_total(8);
      stream->Write(response);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    if (session.mode == "progress_lost" && opens().size() < 3) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost on purpose");
    }
  }
  return Deliver(session);
}

grpc::Status FakeService::Deliver(Session& session) {
  v1::StreamResponse response;
  auto* opened = response.mutable_opened();
  *opened->mutable_schema() = FakeSchema();
  opened->set_samples_per_epoch(kSamples);
  opened->set_batches_per_epoch(3);
  opened->set_batches_left_in_epoch(3);
  opened->set_epochs(2);
  opened->set_boot_id("fake");
  auto* cursor = opened->mutable_cursor();
  *cursor = session.open.cursor();
  cursor->set_version(2);
  cursor->set_order_fingerprint("aa");
  cursor->set_samples_per_epoch(kSamples);
  const auto& known = cursor->quarantined();
  if (std::count(known.begin(), known.end(), "a\"b") == 0) cursor->add_quarantined("a\"b");
  session.cursor = *cursor;
  opened->set_unordered(session.mode == "unordered");
  ChooseTransport(session, opened);
  session.stream->Write(response);
  if (session.mode == "stall" || session.mode == "mute") {
    WaitForEnd(session.context, session.stream, session.mode == "mute");
    return grpc::Status::OK;
  }
  if (session.mode == "unordered") return DeliverUnordered(session);
  const uint64_t epochs = session.mode == "endless" ? 1u << 30 : 2;
  uint64_t consumed = session.open.cursor().consumed();
  for (uint64_t epoch = session.open.cursor().epoch(); epoch < epochs; ++epoch, consumed = 0) {
    for (; consumed < kSamples; consumed += kBatch) {
      if (session.sequence == 1 && session.mode == "data_error") {
        return Error(grpc::StatusCode::DATA_LOSS, "a.tfrecord@77: bad CRC", "CORRUPT_RECORD",
                     "offset", "77");
      }
      const bool resumed = session.open.cursor().consumed() > 0;
      if ((session.sequence == 1 && session.mode == "die") ||
          (session.mode == "die_again" && (session.sequence == 1 || resumed))) {
        (void)!write(2, "the disk is on fire\n", 20);
        kill(getpid(), SIGKILL);
      }
      if (session.sequence == 1 && session.mode == "quarantine") {
        SendQuarantined(session, "z@1");
        if (opens().size() == 1) {
          return Error(grpc::StatusCode::UNAVAILABLE, "cut", "SHUTTING_DOWN", "by", "the test");
        }
      }
      if (session.sequence == 1 && session.mode == "quarantine_nobody")
        SendQuarantined(session, "");
      if (session.sequence == 2 && session.mode == "cut" && opens().size() == 1) {
        return Error(grpc::StatusCode::UNAVAILABLE, "cut", "SHUTTING_DOWN", "by", "the test");
      }
      if (session.sequence == 2 && session.mode == "ends_early" && opens().size() == 1) {
        return grpc::Status::OK;
      }
      if (session.sequence == 2 && session.mode == "door_breaks" && opens().size() == 1) {
        return Error(grpc::StatusCode::UNAVAILABLE, "the client hung up at the arena door",
                     "TRANSPORT_UNAVAILABLE", "by", "the test");
      }
      // raise stops this thread at once; kill may let it write on until another thread has run.
      if (session.sequence == 1 && session.mode == "freeze" && !resumed) raise(SIGSTOP);
      if (!SendBatch(session, epoch, consumed, std::min(kBatch, kSamples - consumed))) {
        return grpc::Status::CANCELLED;
      }
    }
  }
  return grpc::Status::OK;
}

void FakeService::SendQuarantined(Session& session, const std::string& record) {
  v1::StreamResponse response;
  response.mutable_event()->set_kind(v1::SampleEvent::KIND_QUARANTINED);
  response.mutable_event()->set_record(record);
  response.mutable_event()->set_message(record + " ended 3 workers; raise --worker-quota");
  (void)client_internal::AddQuarantined(record, &session.cursor);
  session.stream->Write(response);
}

void FakeService::ChooseTransport(Session& session, v1::Opened* opened) {
  opened->set_transport(v1::TRANSPORT_GRPC);
  if (session.open.transport() == v1::TRANSPORT_GRPC || session.open.arena_token().empty()) return;
  if (door_ == nullptr || session.mode == "no_shm") {
    opened->set_transport_reason("the service has no arenas today");
    return;
  }
  session.arena = std::make_unique<FakeArena>(session.mode != "unsealed");
  session.arena_id = door_->Grant(session.open.arena_token(), *session.arena);
  opened->set_transport(v1::TRANSPORT_SHM);
  opened->set_arena_id(session.arena_id);
  opened->mutable_memory()->set_slot_count(FakeArena::kSlots);
}

// Epochs of batches that come out of order, those left out that the cursor calls completed.
grpc::Status FakeService::DeliverUnordered(Session& session) {
  const auto& done = session.open.cursor().completed();
  const uint64_t first_batch = session.open.cursor().consumed() / kBatch;
  for (uint64_t epoch = session.open.cursor().epoch(), base = 0; epoch < 2; ++epoch) {
    const uint64_t skipped = base == 0 ? first_batch : 0;
    uint64_t left = 3 - skipped - (base == 0 ? static_cast<uint64_t>(done.size()) : 0);
    for (const uint64_t batch : kUnordered) {
      if (batch < skipped) continue;
      if (base == 0 && std::count(done.begin(), done.end(), batch - skipped) > 0) continue;
      session.sequence = base + batch - skipped;
      left_ = --left;
      const uint64_t first = batch * kBatch;
      if (!SendBatch(session, epoch, first, std::min(kBatch, kSamples - first))) {
        return grpc::Status::CANCELLED;
      }
    }
    base += 3 - skipped;
  }
  return grpc::Status::OK;
}

v1::BatchHeader FakeService::MakeHeader(const Session& session, uint64_t epoch, uint64_t first,
                                        uint64_t count) {
  const bool last = first + count == kSamples;
  v1::BatchHeader header;
  header.set_sequence(session.sequence);
  header.set_epoch(epoch);
  header.set_sample_count(count);
  header.set_valid_count(session.mode == "padded" ? count - 1 : count);
  header.set_first_position(first);
  header.set_next_epoch(last ? epoch + 1 : epoch);
  header.set_next_consumed(last ? 0 : first + count);
  header.set_batches_left_in_epoch(
      session.mode == "unordered" ? left_ : (kSamples - first - count + kBatch - 1) / kBatch);
  header.set_payload_bytes(11 * count);
  header.set_quarantine_digest(client_internal::QuarantineDigest(session.cursor));
  return header;
}

bool FakeService::SendSlot(Session& session, const std::string& memory,
                           const v1::BatchHeader& header) {
  const int slot =
      door_->TakeSlot(session.arena_id, [&] { return session.context->IsCancelled(); });
  if (slot < 0) return false;
  std::memcpy(session.arena->slot(static_cast<uint32_t>(slot)), memory.data(), memory.size());
  v1::StreamResponse response;
  *response.mutable_slot()->mutable_header() = header;
  response.mutable_slot()->set_arena_id(session.arena_id);
  response.mutable_slot()->set_slot(session.mode == "wrong_slot" ? 99
                                                                 : static_cast<uint32_t>(slot));
  ++session.sequence;
  return session.stream->Write(response);
}

bool FakeService::SendBatch(Session& session, uint64_t epoch, uint64_t first, uint64_t count) {
  std::vector<uint64_t>& unreleased = session.unreleased;
  while (session.arena == nullptr && session.mode != "credit" &&
         unreleased.size() >= session.open.credits().batches()) {
    v1::StreamRequest request;
    if (!session.stream->Read(&request)) return false;
    const auto through =
        std::find(unreleased.begin(), unreleased.end(), request.release().through_sequence());
    if (through != unreleased.end()) unreleased.erase(unreleased.begin(), through + 1);
  }
  unreleased.push_back(session.sequence);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    most_outstanding_ = std::max<uint64_t>(most_outstanding_, unreleased.size());
  }
  std::string memory(128, '\0');
  for (uint64_t i = 0; i < count; ++i) {
    const int64_t index = static_cast<int64_t>(first + i + 1000 * epoch);
    std::memcpy(&memory[8 * i], &index, 8);
    std::memset(&memory[64 + 3 * i], static_cast<int>(index & 0xff), 3);
  }
  const v1::BatchHeader batch_header = MakeHeader(session, epoch, first, count);
  if (session.arena != nullptr) return SendSlot(session, memory, batch_header);
  bool header_due = true;
  for (const auto& [begin, size] : {std::pair<uint64_t, uint64_t>{0, 8 * count}, {64, 3 * count}}) {
    for (uint64_t done = 0; done < size; done += kPartBytes) {
      v1::StreamResponse response;
      auto* part = response.mutable_part();
      if (header_due) {
        *part->mutable_header() = batch_header;
        header_due = false;
      }
      part->set_offset(begin + done);
      part->set_data(memory.substr(begin + done, std::min(kPartBytes, size - done)));
      if (!session.stream->Write(response)) return false;
    }
  }
  ++session.sequence;
  return true;
}

grpc::Status FakeService::GetStatus(grpc::ServerContext* context,
                                    const v1::GetStatusRequest* request,
                                    v1::GetStatusResponse* response) {
  response->set_pid(42);
  response->mutable_supervisor()->set_memory_bytes(7);
  for (const uint64_t memory : {100, 50}) {
    auto* worker = response->add_workers();
    worker->set_state(v1::WORKER_STATE_BUSY);
    worker->mutable_usage()->set_memory_bytes(memory);
    worker->mutable_usage()->set_peak_memory_bytes(2 * memory);
  }
  response->add_recent_exits()->mutable_usage()->set_peak_memory_bytes(300);
  response->add_streams()->mutable_arena()->set_bytes(11);
  response->add_streams()->mutable_arena()->set_bytes(22);
  return grpc::Status::OK;
}

grpc::Status FakeService::Describe(grpc::ServerContext* context, const v1::DescribeRequest* request,
                                   grpc::ServerWriter<v1::DescribeResponse>* writer) {
  v1::DescribeResponse response;
  response.mutable_progress()->set_files_total(5);
  writer->Write(response);
  *response.mutable_description()->mutable_schema() = FakeSchema();
  if (!request->schema_only()) response.mutable_description()->set_samples_per_epoch(kSamples);
  writer->Write(response);
  return grpc::Status::OK;
}

std::vector<v1::Open> FakeService::opens() {
  std::lock_guard<std::mutex> lock(mutex_);
  return opens_;
}

uint64_t FakeService::most_outstanding() {
  std::lock_guard<std::mutex> lock(mutex_);
  return most_outstanding_;
}

}  // namespace bulkhead
